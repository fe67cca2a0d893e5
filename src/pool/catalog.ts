import { invariant, StepwellError } from '../errors.ts';
import { type Address, NULL_ADDRESS, type Operation } from '../verbs/index.ts';
import { type Bound, blockOfBound, decodeBound } from './bound.ts';
import { HELD, HolderWord, INHERITED } from './clients/holder-word.ts';
import type { Membership } from './clients/membership.ts';
import { control } from './control.ts';
import {
  CATALOG_ENTRIES,
  CATALOG_ENTRY_BYTES,
  CATALOG_OFFSET,
  STORE_WORDS_BYTES,
  STORE_WORDS_OFFSET,
  SUPERBLOCK,
} from './layout.ts';
import type { ChunkTable, LeftChunk } from './memory/chunks.ts';

const EMPTY = 0;
const CREATING = 1;
const READY = 2;
/** The store is dropped. Row and memory stay reserved until no client's row names the store. */
const DROPPED = 3;

/** A row's first word: 4 bits of state, then the name of the index kind, 5 bits a letter. */
const STATE_BITS = 4n;
const STATE_MASK = 15;
const LETTER_BITS = 5n;
const LETTERS = '\0abcdefghijklmnopqrstuvwxyz-';
const KIND_NAME = /^[a-z-]{1,12}$/;
const ROOT = 8;
const PARAMETERS = 16;
const NAME_LENGTH = 64;
const NAME = 65;
export const STORE_NAME_BYTES = 48;
/** Clients that have left unreachable blocks in the store since its last complete sweep. */
const LEFT_BEHIND = 120;
export const STORE_PARAMETERS = 12;

/**
 * In a store's line: whether it has records that expire; when `takeTurn` last succeeded; the
 * cursor.
 */
const TIMED = 0;
const TURN_AT = 8;
const TURN_CURSOR = 16;

const WAIT_MICROSECONDS = 500;
const WAITS_MAX = 10_000;
/** Waits for a holder that creates no store: nothing else takes long under the lock. */
const IDLE_WAITS_MAX = 1600;
const WAITS_PER_LOOK = 32;

export interface CatalogEntry {
  /** 1-based row: the catalog number in chunk words. */
  id: number;
  name: string;
  ready: boolean;
  dropped: boolean;
  /** The name of its index's kind. This program need not know the kind. */
  kind: string;
  root: Address;
  /** Unsigned 32-bit numbers, whose meaning the index kind defines. */
  parameters: number[];
  /**
   * Clients that, since the last complete sweep, died with the store open or left before their
   * retired blocks were freed. Such blocks stay in use although nothing reaches them.
   */
  unswept: number;
}

/** A store that was found or created. */
export interface Made {
  entry: CatalogEntry;
  isNew: boolean;
}

/** Memory of a store that does not exist: half created, or dropped. */
interface Unfinished {
  /** Its index kind; empty if the row no longer says so. */
  kind: string;
  chunks: number;
}

/** The pool's named stores. */
export class Catalog {
  readonly #lockWord: HolderWord;
  readonly #chunks: ChunkTable;
  readonly #membership: Membership;
  /** Cleans up after clients that are gone. */
  readonly #recover: () => Operation<void>;

  constructor(membership: Membership, chunks: ChunkTable, recover: () => Operation<void>) {
    this.#chunks = chunks;
    this.#recover = recover;
    this.#membership = membership;
    this.#lockWord = new HolderWord(membership, SUPERBLOCK.catalogLock);
  }

  *entries(): Operation<CatalogEntry[]> {
    const bytes = yield* control.readBytes(CATALOG_OFFSET, CATALOG_ENTRIES * CATALOG_ENTRY_BYTES);
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const found: CatalogEntry[] = [];
    for (let row = 0; row < CATALOG_ENTRIES; row++) {
      const at = row * CATALOG_ENTRY_BYTES;
      const state = view.getUint8(at) & STATE_MASK;
      if (state === EMPTY) continue;
      const length = Math.min(view.getUint8(at + NAME_LENGTH), STORE_NAME_BYTES);
      found.push({
        id: row + 1,
        name: new TextDecoder('utf-8', { ignoreBOM: true }).decode(
          bytes.subarray(at + NAME, at + NAME + length),
        ),
        ready: state === READY,
        dropped: state === DROPPED,
        kind: unpackKind(view.getBigUint64(at, true)),
        root: Number(view.getBigUint64(at + ROOT, true)),
        parameters: Array.from({ length: STORE_PARAMETERS }, (_, i) =>
          view.getUint32(at + PARAMETERS + 4 * i, true),
        ),
        unswept: Number(view.getBigUint64(at + LEFT_BEHIND, true)),
      });
    }
    return found;
  }

  /**
   * The store, if it is ready. Takes no lock, because a ready entry does not change until it is
   * dropped. Reads twice, because other words of the first READ may be older than the READY among
   * them.
   */
  *find(name: string): Operation<CatalogEntry | undefined> {
    const isIt = (entry: CatalogEntry) => entry.ready && entry.name === name;
    if (!(yield* this.entries()).some(isIt)) return undefined;
    return (yield* this.entries()).find(isIt);
  }

  /**
   * Finds the store or creates it: under the lock, `build` allocates and fills the index and
   * returns its root, then one CAS makes the entry READY. The next holder of the lock clears an
   * entry that a dead client left half created. If the creation fails, its chunks are freed at
   * once; if the creator dies, the next creator in the same row frees them, or a sweep. `wordsFor`
   * returns the beginning of the store's line behind the catalog.
   */
  *findOrCreate(
    name: string,
    kind: string,
    parameters: readonly number[],
    build: (id: number) => Operation<Address>,
    wordsFor: (id: number) => Operation<Uint8Array> = noWords,
  ): Operation<Made> {
    const existing = yield* this.find(name);
    if (existing) return { entry: existing, isNew: false };
    const isInherited = yield* this.#lock();
    try {
      const made = yield* this.find(name);
      if (made) return { entry: made, isNew: false };
      // The dead holder may have been creating a store, and may still own chunks.
      if (isInherited) yield* this.#recover();
      const entry = yield* this.#create(name, kind, parameters, build, wordsFor);
      return { entry, isNew: true };
    } finally {
      yield* this.#lockWord.leave();
    }
  }

  *#create(
    name: string,
    kind: string,
    parameters: readonly number[],
    build: (id: number) => Operation<Address>,
    wordsFor: (id: number) => Operation<Uint8Array>,
  ): Operation<CatalogEntry> {
    const id = yield* this.#freeRow();
    const at = rowAt(id);
    const creating = stateWord(CREATING, kind);
    yield* control.store(at, creating);
    yield* this.#giveBack(id);
    let root: Address = NULL_ADDRESS;
    let words: Uint8Array;
    try {
      root = yield* build(id);
      words = yield* wordsFor(id);
      invariant(root > NULL_ADDRESS, 'a store is created without a root');
    } catch (error) {
      yield* this.#giveBack(id);
      yield* control.store(at, 0n);
      throw error;
    }
    yield* control.writeBytes(wordsOf(id), words);
    yield* control.writeBytes(at + ROOT, encodeEntry(name, root, parameters));
    const ready = yield* control.swap(at, creating, stateWord(READY, kind));
    invariant(ready, 'the catalog changed under its lock');
    const made = { id, name, kind, root, parameters: [...parameters] };
    return { ...made, ready: true, dropped: false, unswept: 0 };
  }

  /** Does nothing while a client's row names the store: that client may write to the chunks. */
  *#giveBack(id: number): Operation<void> {
    if ((yield* this.#membership.namedStores()).has(id)) return;
    yield* this.#chunks.giveBack(yield* this.#chunks.left((catalog) => catalog !== id));
  }

  /**
   * Memory that creators and droppers left when they died. Empty while a client creates a store.
   */
  *unfinished(): Operation<Unfinished[]> {
    const found = new Map<number, Unfinished>();
    const left = yield* this.#whileNobodyMakes(() => this.#left());
    const kinds = new Map((yield* this.entries()).map(({ id, kind }) => [id, kind]));
    for (const { catalog } of left ?? []) {
      const { chunks } = found.get(catalog) ?? { chunks: 0 };
      found.set(catalog, { kind: kinds.get(catalog) ?? '', chunks: chunks + 1 });
    }
    return [...found.values()];
  }

  /**
   * Frees memory that creators and droppers left when they died; returns how many chunks. A store
   * that is not READY is known only to its creator, which holds the lock until it is, and to
   * clients whose rows name it. So under the lock, the chunks of any other such store belong to a
   * client that is gone or has given up. Neither uses them again, because no living client loses
   * the lock.
   */
  *releaseUnfinished(): Operation<number> {
    // Usually there is nothing, and then no creator of a store has to wait.
    if ((yield* this.#left()).length === 0) return 0;
    const chunks = this.#chunks;
    const left = () => this.#left();
    const given = yield* this.#whileNobodyMakes(function* () {
      return yield* chunks.giveBack(yield* left());
    });
    return given ?? 0;
  }

  *#left(): Operation<LeftChunk[]> {
    const there = new Set<number>();
    for (const { ready, id } of yield* this.entries()) if (ready) there.add(id);
    for (const id of yield* this.#membership.namedStores()) there.add(id);
    return yield* this.#chunks.left((catalog) => there.has(catalog));
  }

  /**
   * Drops the store: from now on no client can open it, and its name is free. The count of drops
   * tells clients that have it open. False if another client was faster.
   */
  *drop(entry: CatalogEntry): Operation<boolean> {
    yield* this.#lock();
    try {
      // It may have been dropped, and its row may hold another store.
      const found = yield* this.find(entry.name);
      if (found?.id !== entry.id || found.root !== entry.root) return false;
      yield* control.store(rowAt(entry.id), stateWord(DROPPED, entry.kind));
      yield* control.add(SUPERBLOCK.drops, 1n);
      return true;
    } finally {
      yield* this.#lockWord.leave();
    }
  }

  /**
   * Frees the memory and rows of dropped stores that no client's row names any more. Returns
   * whether this one is among them. If the client dies in between, the next one that creates or
   * drops a store goes on, or the sweep of a full pool.
   */
  *finishDrop(id: number): Operation<boolean> {
    yield* this.#lock();
    try {
      const entries = yield* this.entries();
      yield* this.#finishDrops(entries);
      return !(yield* this.entries()).some((entry) => entry.dropped && entry.id === id);
    } finally {
      yield* this.#lockWord.leave();
    }
  }

  *#finishDrops(entries: readonly CatalogEntry[]): Operation<void> {
    for (const entry of entries.filter(({ dropped }) => dropped)) {
      // Some client may still touch its memory.
      if ((yield* this.#membership.holdersOf(entry.id)).length > 0) {
        // Counts again, in case the dropper died before it did.
        yield* control.add(SUPERBLOCK.drops, 1n);
        continue;
      }
      yield* this.#giveBack(entry.id);
      yield* control.store(rowAt(entry.id), 0n);
    }
  }

  /** Does nothing, and returns undefined, while a living client creates a store. */
  *#whileNobodyMakes<T>(operation: () => Operation<T>): Operation<T | undefined> {
    if ((yield* this.#lockWord.take()) === HELD) return undefined;
    try {
      return yield* operation();
    } finally {
      yield* this.#lockWord.leave();
    }
  }

  /** A free row. Under the lock, a CREATING entry can only be a dead holder's, and is cleared. */
  *#freeRow(): Operation<number> {
    const entries = yield* this.entries();
    yield* this.#finishDrops(entries);
    for (const entry of entries) {
      if (entry.ready || entry.dropped) continue;
      yield* control.store(rowAt(entry.id), 0n);
    }
    // A client whose creation failed may still hold blocks that it claimed for the store.
    const taken = yield* this.#membership.namedStores();
    for (const { ready, dropped, id } of yield* this.entries()) if (ready || dropped) taken.add(id);
    for (let id = 1; id <= CATALOG_ENTRIES; id++) if (!taken.has(id)) return id;
    throw new StepwellError(
      'SW_TOO_MANY_STORES',
      `the pool has ${CATALOG_ENTRIES} stores, and no room for more: drop one ` +
        '(stepwell stores lists them, stepwell drop), or take some into a pool of their own ' +
        '(stepwell copy URL NEW --store NAME,…)',
    );
  }

  /** Adds to a store's `unswept`; a complete sweep subtracts what it has read. */
  *addUnswept(id: number, clients: number): Operation<void> {
    yield* control.add(rowAt(id) + LEFT_BEHIND, BigInt(clients));
  }

  *unswept(id: number): Operation<number> {
    return Number(yield* control.load(unsweptAt(id)));
  }

  /** Notes that the store may have records that expire, from now on. */
  *noteTimed(id: number): Operation<void> {
    yield* control.store(wordsOf(id) + TIMED, 1n);
  }

  /** Whether the store may have records that expire. */
  *isTimed(id: number): Operation<boolean> {
    return (yield* control.load(wordsOf(id) + TIMED)) !== 0n;
  }

  /**
   * Claims a turn at periodic work for a store, which one client does at a time. True if the last
   * turn was claimed `interval` milliseconds ago or more, by the clients' clocks.
   */
  *takeTurn(id: number, now: number, interval: number): Operation<boolean> {
    const address = wordsOf(id) + TURN_AT;
    const last = yield* control.load(address);
    // A negative age: the clock of the last client was wrong.
    const age = now - Number(last);
    if (age >= 0 && age < interval) return false;
    return yield* control.swap(address, last, BigInt(Math.floor(now)));
  }

  /** Where the next turn's walk resumes. */
  *turnCursor(id: number): Operation<number> {
    return Number(yield* control.load(wordsOf(id) + TURN_CURSOR));
  }

  *setTurnCursor(id: number, cursor: number): Operation<void> {
    yield* control.store(wordsOf(id) + TURN_CURSOR, BigInt(cursor));
  }

  /**
   * The store's bound; undefined if it may fill the pool. Raises SW_POOL_CORRUPT if the block of
   * the bound does not belong to the store.
   */
  *boundOf(id: number): Operation<Bound | undefined> {
    const bound = decodeBound(yield* control.readBytes(wordsOf(id), STORE_WORDS_BYTES));
    if (bound === undefined) return undefined;
    const { address, units } = blockOfBound(this.#membership.clientsMax, bound);
    const isThere = yield* this.#chunks.holdsMemory(address, units, id);
    invariant(isThere, `the counts of store ${id} are at ${address}`);
    return bound;
  }

  /**
   * Takes the lock; returns whether the holder before is gone. Waits five seconds for one that
   * creates a store, else less than a second, because a damaged word may name any living client.
   */
  *#lock(): Operation<boolean> {
    let idle = 0;
    for (let waits = 0; waits < WAITS_MAX && idle < IDLE_WAITS_MAX; waits++, idle++) {
      const taken = yield* this.#lockWord.take();
      if (taken !== HELD) return taken === INHERITED;
      yield* control.pause(WAIT_MICROSECONDS);
      if (waits % WAITS_PER_LOOK > 0) continue;
      const isCreating = (yield* this.entries()).some(({ ready, dropped }) => !ready && !dropped);
      if (isCreating) idle = 0;
    }
    throw new StepwellError('SW_TIMEOUT', 'another client has held the catalog for too long');
  }
}

/** The words of a store without a bound. */
// biome-ignore lint/correctness/useYield: an operation without a verb
function* noWords(): Operation<Uint8Array> {
  return new Uint8Array(STORE_WORDS_BYTES);
}

/** The word that counts a store's `unswept`. */
export function unsweptAt(id: number): Address {
  return rowAt(id) + LEFT_BEHIND;
}

function rowAt(id: number): Address {
  invariant(id >= 1 && id <= CATALOG_ENTRIES, 'no row of the catalog has this number');
  return CATALOG_OFFSET + (id - 1) * CATALOG_ENTRY_BYTES;
}

function wordsOf(id: number): Address {
  invariant(id >= 1 && id <= CATALOG_ENTRIES, 'no line of a store has this number');
  return STORE_WORDS_OFFSET + (id - 1) * STORE_WORDS_BYTES;
}

function stateWord(state: number, kind: string): bigint {
  if (!KIND_NAME.test(kind)) {
    const why = `the name of a kind of index has 1..12 letters of a-z or -, not ${kind}`;
    throw new StepwellError('SW_INVALID_ARGUMENT', why);
  }
  const letters = [...kind].map((letter) => BigInt(LETTERS.indexOf(letter)));
  const word = letters.reduceRight((rest, letter) => (rest << LETTER_BITS) | letter, 0n);
  return (word << STATE_BITS) | BigInt(state);
}

function unpackKind(word: bigint): string {
  let name = '';
  for (let rest = word >> STATE_BITS; rest > 0n; rest >>= LETTER_BITS) {
    name += LETTERS[Number(BigInt.asUintN(Number(LETTER_BITS), rest))] ?? '?';
  }
  return name;
}

function encodeEntry(name: string, root: Address, parameters: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(CATALOG_ENTRY_BYTES - ROOT);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(root), true);
  parameters.forEach((value, i) => {
    view.setUint32(PARAMETERS - ROOT + 4 * i, value, true);
  });
  const encoded = new TextEncoder().encode(name);
  view.setUint8(NAME_LENGTH - ROOT, encoded.length);
  bytes.set(encoded, NAME - ROOT);
  return bytes;
}
