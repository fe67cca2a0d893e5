import { blocksPerChunk, CHUNK_BYTES, stateMapBytes } from '../../../src/pool/layout.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import {
  type Address,
  CAS,
  type Operation,
  offsetOf,
  READ,
  UNIT_BYTES,
  WRITE,
} from '../../../src/verbs/index.ts';
import { type AccessObserver, type AdversaryMemory, WORD } from '../schedules/adversary.ts';
import type { LinesOfBlock } from './block-of.ts';

const POISON = 0xdb;
/** State bytes of a chunk with blocks of one line. */
const STATES_MAX = stateMapBytes(blocksPerChunk(1));

interface RetiredBlock {
  by: number;
  /** When the retiring client last touched the pool: it unlinked the block at or before that. */
  at: number;
  units: number;
}

/** What the oracle asks of the run. */
interface RunView {
  now(): number;
  /** When the client last let a piece happen, in whichever lane. */
  lastStep(client: number): number;
  /** Operations in flight, with their starts: they may hold addresses read since then. */
  inOperation(): { client: number; since: number }[];
  /** The block that an address is in now, if in any. */
  blockOf(address: Address): LinesOfBlock | undefined;
}

/**
 * Watches which blocks are retired and given back, independently of the epochs that decide it. A
 * block may be given back only when no client is still in an operation that began before it was
 * unlinked. The oracle then poisons it. Until it is written again, a READ or an atomic of it is a
 * use after free, unless the index may use stale addresses (`readsAhead`, `locksAhead`). So is a
 * WRITE while the block waits in the cache of the client that gave it back.
 */
export class ReclamationOracle implements AccessObserver {
  readonly #memory: AdversaryMemory;
  readonly #run: RunView;
  readonly #fail: (text: string) => void;
  readonly #pools = new Map<number, Pick<LocalPool, 'allocator'>>();
  /** Off, only the consequences of an early re-use are seen: for canaries. */
  readonly #grace: boolean;
  readonly #readsAhead: (units: number) => boolean;
  readonly #locksAhead: (units: number) => boolean;
  readonly #overwrites: (units: number) => boolean;
  readonly #retired = new Map<Address, RetiredBlock>();
  /** By unit: the client that gave its block back, and that block. */
  readonly #free = new Map<number, { by: number; first: number; units: number }>();
  /** By block: the client that has allocated it, until it is retired or given back. */
  readonly #allocated = new Map<Address, number>();
  /** By word: clients that have tried a CAS on it, such as a claim on a word of state bytes. */
  readonly #swappers = new Map<Address, Set<number>>();
  /** By client: how many of its operations may be reading state bytes. */
  readonly #readingMaps = new Map<number, number>();
  freed = 0;

  constructor(
    memory: AdversaryMemory,
    run: RunView,
    fail: (text: string) => void,
    {
      grace = true,
      readsAhead = () => false,
      locksAhead = () => false,
      overwrites = () => false,
    }: {
      grace?: boolean;
      readsAhead?: (units: number) => boolean;
      locksAhead?: (units: number) => boolean;
      overwrites?: (units: number) => boolean;
    } = {},
  ) {
    this.#memory = memory;
    this.#run = run;
    this.#fail = fail;
    this.#grace = grace;
    this.#readsAhead = readsAhead;
    this.#locksAhead = locksAhead;
    this.#overwrites = overwrites;
    memory.observer = this;
  }

  /** Listens to one client's reclamation and allocator. */
  watch(client: number, { reclamation, allocator }: LocalPool): void {
    this.#pools.set(client, { allocator });
    const retire = reclamation.retire.bind(reclamation);
    reclamation.retire = (address, units, catalog) => {
      this.#onRetire(client, address, units);
      retire(address, units, catalog);
    };
    const free = allocator.free.bind(allocator);
    allocator.free = (address, units, catalog) => {
      this.#onFree(client, address, units);
      free(address, units, catalog);
    };
    this.#noteMapReads(client, allocator);
    this.#noteAllocations(client, allocator);
  }

  #noteAllocations(client: number, allocator: LocalPool['allocator']): void {
    const allocated = this.#allocated;
    const allocate = allocator.allocate.bind(allocator);
    allocator.allocate = function* (catalog, units, node) {
      const address = yield* allocate(catalog, units, node);
      allocated.set(address, client);
      return address;
    };
    const discard = allocator.discard.bind(allocator);
    allocator.discard = (catalog, units, address) => {
      allocated.delete(address);
      discard(catalog, units, address);
    };
  }

  /**
   * Allows clients to read state bytes of a chunk before they know what the chunk serves by now:
   * blocks of another size may stand in their place.
   */
  #noteMapReads(client: number, allocator: LocalPool['allocator']): void {
    const reading = (by: number) => {
      this.#readingMaps.set(client, (this.#readingMaps.get(client) ?? 0) + by);
    };
    function* noted(operation: Operation<void>): Operation<void> {
      reading(1);
      try {
        yield* operation;
      } finally {
        reading(-1);
      }
    }
    const refill = allocator.refill.bind(allocator);
    allocator.refill = (sizeClass) => noted(refill(sizeClass));
    const readMaps = allocator.readMaps.bind(allocator);
    allocator.readMaps = (all, visit) => noted(readMaps(all, visit));
  }

  #onRetire(client: number, address: Address, units: number): void {
    const earlier = this.#retired.get(address);
    if (earlier) {
      this.#fail(`block ${address} was retired by client ${earlier.by} and again by ${client}`);
    }
    this.#retired.set(address, { by: client, at: this.#run.lastStep(client), units });
    this.#allocated.delete(address);
  }

  /** The client that retired the block, or was about to mark it free: its death loses the block. */
  holderOf(address: Address): number | undefined {
    return this.#retired.get(address)?.by ?? this.#free.get(address / UNIT_BYTES)?.by;
  }

  /** The clients that may have claimed a block whose state byte is in this word. */
  claimersOf(word: Address): Iterable<number> {
    return this.#swappers.get(word) ?? [];
  }

  /** Blocks that nobody retired come from a cache on leaving, or from a sweep. */
  #onFree(client: number, address: Address, units: number): void {
    const retired = this.#retired.get(address);
    this.#retired.delete(address);
    this.#allocated.delete(address);
    this.freed++;
    if (this.#grace && retired) this.#checkGrace(client, address, retired);
    this.#memory.fill(address, units * UNIT_BYTES, POISON);
    const first = address / UNIT_BYTES;
    for (let i = 0; i < units; i++) this.#free.set(first + i, { by: client, first, units });
  }

  #checkGrace(client: number, address: Address, retired: RetiredBlock): void {
    for (const holder of this.#run.inOperation()) {
      if (holder.since >= retired.at) continue;
      this.#fail(
        `block ${address}, unlinked by client ${retired.by} at ${retired.at}, is given back by ` +
          `client ${client} while client ${holder.client} is in an operation since ${holder.since}`,
      );
    }
  }

  onAccess(client: number, kind: number, address: Address, words: number): void {
    if (kind === CAS) this.#noteSwap(client, address);
    if (this.#free.size === 0 && this.#retired.size === 0) return;
    const end = address + WORD * words;
    for (let at = address; at < end; at += UNIT_BYTES - (at % UNIT_BYTES)) {
      this.#onLine(client, kind, at);
    }
  }

  #noteSwap(client: number, address: Address): void {
    const known = this.#swappers.get(address);
    if (known === undefined) this.#swappers.set(address, new Set([client]));
    else known.add(client);
  }

  /** An access of a line from this word on. */
  #onLine(client: number, kind: number, address: Address): void {
    const unit = Math.floor(address / UNIT_BYTES);
    const free = this.#free.get(unit);
    if (free) {
      if (kind === WRITE) {
        this.#checkTaken(client, free);
        this.#free.delete(unit);
      } else if (!this.#isAllowed(client, kind, address, free)) {
        const does = kind === READ ? 'reads' : 'changes';
        this.#fail(`client ${client} ${does} block ${unit * UNIT_BYTES} after it was given back`);
      }
    }
    if (kind !== WRITE) return;
    if (address === unit * UNIT_BYTES) this.#beginUse(unit);
    const retired = this.#retired.get(unit * UNIT_BYTES);
    if (retired !== undefined && !this.#overwrites(retired.units)) {
      this.#fail(`client ${client} writes into retired block ${unit * UNIT_BYTES}`);
    }
  }

  #isAllowed(
    client: number,
    kind: number,
    address: Address,
    { first, units }: { first: number; units: number },
  ): boolean {
    if (kind === READ) {
      return (
        this.#readsAhead(units) ||
        this.#mayBeStates(client, address) ||
        this.#isAllocatedBy(client, address)
      );
    }
    return kind === CAS && address === first * UNIT_BYTES && this.#locksAhead(units);
  }

  #isAllocatedBy(client: number, address: Address): boolean {
    const block = this.#run.blockOf(address);
    return block !== undefined && this.#allocated.get(block.first * UNIT_BYTES) === client;
  }

  #mayBeStates(client: number, address: Address): boolean {
    const isFirst = offsetOf(address) % CHUNK_BYTES < STATES_MAX;
    return isFirst && (this.#readingMaps.get(client) ?? 0) > 0;
  }

  /** Its giver keeps it for its own next allocation; only that makes it writable again. */
  #checkTaken(client: number, { by, first }: { by: number; first: number }): void {
    const address = first * UNIT_BYTES;
    for (const { cache } of this.#pools.get(by)?.allocator.classes() ?? []) {
      if (!cache.includes(address)) continue;
      this.#fail(
        `client ${client} writes into block ${address}, which client ${by} has in reserve`,
      );
    }
  }

  /**
   * A block whose first line is written is in use; the writer may leave its last lines empty. The
   * block is what the chunk is carved into now: it need not be what was given back there.
   */
  #beginUse(unit: number): void {
    if (this.#free.size === 0) return;
    const now = this.#run.blockOf(unit * UNIT_BYTES);
    if (now?.first !== unit) return;
    for (let i = 0; i < now.units; i++) this.#free.delete(unit + i);
  }
}
