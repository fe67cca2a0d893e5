import { invariant, StepwellError } from '../errors.ts';
import { HELD, INHERITED } from '../pool/clients/holder-word.ts';
import { EPOCHS_TO_RIPEN } from '../pool/clients/limbo.ts';
import { control } from '../pool/control.ts';
import { SUPERBLOCK } from '../pool/layout.ts';
import { BLOCK_FREE, BLOCK_LOCKED, claimedIn, isClaimedIn } from '../pool/memory/block-state.ts';
import { isFor, unpackChunk } from '../pool/memory/chunk-word.ts';
import type { SizeClass } from '../pool/memory/size-class.ts';
import type { Pool } from '../pool/pool.ts';
import { SLOT_UNITS_MAX } from '../records/layout.ts';
import { type Address, type Operation, UNIT_BYTES } from '../verbs/index.ts';
import type { Index } from './contract.ts';
import { knownKind, openIndex } from './kinds.ts';
import type { RecordIo } from './substrates/record-io.ts';
import type { Request } from './substrates/request.ts';
import type { Parts } from './traversal/parts.ts';

const WAITS_MAX = 100;
const WAIT_MICROSECONDS = 2000;
/** Waits between two checks whether the clients that hold up a sweep are still alive. */
const WAITS_PER_CHECK = 8;
/** How often a client waits for another sweeper. */
const TURN_WAITS_MAX = 500;

/**
 * Frees blocks that dead clients lost, in any chunk: those that they had claimed ahead, or retired
 * and never freed. It sweeps the caller's store and every store with which a client died. One
 * client sweeps at a time, between operations, when the pool is full. The others go on.
 *
 * 1. Begin a phase: the word `sweepPhase` becomes odd. A client reads it right after each
 *    announcement of an epoch. In a new phase it returns what it has claimed ahead, and from then
 *    on its claims write another byte (`claimedIn`). During the phase it keeps no freed block.
 * 2. Wait until every client is idle or has announced an epoch in the phase.
 * 3. Read the state bytes. A block is suspect when its byte is neither free nor of this phase.
 * 4. Walk the index. Blocks that the walk reaches are not suspect.
 * 5. Wait until every block that was unlinked before the walk ended has been freed.
 * 6. Free the suspects whose byte has not changed, in chunks that still have the same use: one that
 *    was emptied in step 5 may have data where its state bytes were. Then end the phase.
 *
 * Why no block in use is freed. After step 2, no living client has a block of an earlier phase in
 * its cache or in an operation: it has given back the cached ones, and its operation has ended. So
 * at step 3 a suspect is linked, in a living client's limbo, or lost. The walk reaches a linked
 * one, unless it is unlinked first and so in a limbo too. Blocks in a limbo are freed in step 5. A
 * block that is freed and claimed again has this phase's byte, so step 6 leaves it alone.
 *
 * Crash points. A sweeper that dies leaves the phase odd. Clients keep no freed blocks until the
 * next sweeper takes over; it begins a new phase. Each block that was freed stays free.
 *
 * Returns how many blocks and chunks it freed, or 1 if another client has just swept.
 */
export function* sweep(pool: Pool, index: Index, forDeletion = true): Operation<number> {
  // First, because it tells whether this client was declared dead while it was idle.
  yield* pool.reclamation.quiesce();
  const turn = yield* takeTurn(pool);
  if (turn !== 'taken') return turn === 'missed' ? 1 : 0;
  try {
    yield* pool.recovering(() => true);
    const brought = (yield* compact(pool, index, forDeletion)) + (yield* sweepStores(pool, index));
    return brought > 0 ? brought : yield* pool.catalog.releaseUnfinished();
  } finally {
    // Even if the sweep fails: others wait for what this client has retired.
    yield* pool.reclamation.goOffline();
    yield* pool.sweeper.leave();
  }
}

/**
 * Becomes the sweeper, or waits for a living client that is: until that has swept ('missed'), or
 * seems to be stuck.
 */
function* takeTurn(pool: Pool): Operation<'taken' | 'missed' | 'stuck'> {
  for (let waits = 0; waits < TURN_WAITS_MAX; waits++) {
    const taken = yield* pool.sweeper.take();
    if (taken === INHERITED || (taken !== HELD && waits === 0)) return 'taken';
    if (taken !== HELD) {
      yield* pool.sweeper.leave();
      return 'missed';
    }
    // The other sweeper waits until this client has freed what it retired.
    yield* pool.reclamation.goOffline();
    yield* pool.reclamation.collect();
    yield* control.pause(WAIT_MICROSECONDS);
  }
  return 'stuck';
}

/** Returns how many parts of the index it changed. */
function* compact(pool: Pool, index: Index, forDeletion: boolean): Operation<number> {
  if (index.compact === undefined) return 0;
  yield* pool.reclamation.quiesce();
  return yield* index.compact(() => awaitReaders(pool), forDeletion);
}

function* sweepStores(pool: Pool, index: Index): Operation<number> {
  const phase = yield* beginPhase();
  try {
    if (!(yield* awaitReaders(pool))) return 0;
    // Otherwise it would consider blocks lost that living clients claim from now on.
    const isOwn = pool.allocator.claim === claimedIn(Math.ceil(phase / 2));
    invariant(isOwn, 'a sweep uses another phase than it has begun');
    let brought = yield* sweepStore(pool, index);
    for (const { id, name, ready, kind, unswept } of yield* pool.catalog.entries()) {
      const isAnother = ready && id !== index.records.catalog && knownKind(kind) !== undefined;
      if (isAnother && unswept > 0) brought += yield* sweepNamed(pool, name);
    }
    return brought;
  } finally {
    // A CAS: if this client was declared dead, another sweeper may have begun a phase since.
    yield* control.swap(SUPERBLOCK.sweepPhase, BigInt(phase), BigInt(phase + 1));
  }
}

/** Step 1. Only the client that the sweeper's word names writes the phase. */
function* beginPhase(): Operation<number> {
  const before = Number(yield* control.load(SUPERBLOCK.sweepPhase));
  const phase = before + (before % 2 === 1 ? 2 : 1);
  yield* control.store(SUPERBLOCK.sweepPhase, BigInt(phase));
  return phase;
}

/** Sweeps another store. Damage there is for its own clients to report. */
function* sweepNamed(pool: Pool, name: string): Operation<number> {
  const opened = yield* pool.stores.open(name);
  if (opened === undefined) return 0;
  try {
    yield* pool.reclamation.quiesce();
    const index = yield* openIndex(pool, opened.entry);
    return (yield* compact(pool, index, true)) + (yield* sweepStore(pool, index));
  } catch (error) {
    if (error instanceof StepwellError) return 0;
    throw error;
  } finally {
    pool.stores.close(opened.store);
  }
}

/** Steps 3 to 6 for one store. */
function* sweepStore(pool: Pool, index: Index): Operation<number> {
  const { reclamation, catalog } = pool;
  const { catalog: store } = index.records;
  yield* reclamation.quiesce();
  const unswept = yield* catalog.unswept(store);
  const suspects = new SuspectBlocks(pool, store);
  yield* suspects.read();
  yield* eachReachable(index, (address) => suspects.clear(address));
  const bound = yield* catalog.boundOf(store);
  if (bound) suspects.clear(bound.block);
  const epoch = yield* reclamation.readEpoch();
  yield* reclamation.goOffline();
  if (!(yield* awaitFreed(pool, epoch))) return 0;
  yield* reclamation.quiesce();
  const freed = yield* suspects.free();
  yield* catalog.addUnswept(store, -unswept);
  return freed;
}

/**
 * Waits, idle, until no client holds an address that was unlinked before, and announces an epoch
 * again. False if a living client has not left its epoch in all that time.
 */
function* awaitReaders(pool: Pool): Operation<boolean> {
  const { reclamation } = pool;
  yield* reclamation.goOffline();
  // When blocks that are retired now could be reused: see Limbo.
  const ripe = (yield* reclamation.readEpoch()) + EPOCHS_TO_RIPEN;
  let epoch = 0;
  for (let waits = 0; waits < WAITS_MAX && epoch < ripe; ) {
    const before = epoch;
    yield* reclamation.advanceBeyond(ripe - 1);
    epoch = yield* reclamation.readEpoch();
    if (epoch === before) yield* wait(pool, waits++);
  }
  yield* reclamation.collect();
  yield* reclamation.quiesce();
  return epoch >= ripe;
}

/**
 * Waits until blocks retired up to `epoch` are freed. False if a living client holds them back too
 * long.
 */
function* awaitFreed(pool: Pool, epoch: number): Operation<boolean> {
  for (let waits = 0; waits < WAITS_MAX; waits++) {
    yield* pool.reclamation.collect();
    yield* pool.reclamation.advanceBeyond(epoch);
    if (yield* pool.reclamation.drainedUpTo(epoch)) return true;
    yield* wait(pool, waits);
  }
  return false;
}

/** Clients that die meanwhile must be recovered, or the sweep would wait for them. */
function* wait(pool: Pool, waits: number): Operation<void> {
  if (waits % WAITS_PER_CHECK === 0) yield* pool.recovering(() => true);
  yield* control.pause(WAIT_MICROSECONDS);
}

/** State bytes of a chunk; 0 for blocks that are not suspect. */
interface SuspectMap {
  readonly sizeClass: SizeClass;
  readonly states: Uint8Array;
}

/** Blocks of a store that dead clients may have lost; a sweep narrows them down. */
class SuspectBlocks {
  readonly #pool: Pool;
  readonly #catalog: number;
  readonly #maps = new Map<number, SuspectMap>();

  constructor(pool: Pool, catalog: number) {
    this.#pool = pool;
    this.#catalog = catalog;
  }

  /** Step 3: all blocks that were claimed before this phase. */
  *read(): Operation<void> {
    const { allocator } = this.#pool;
    const { claim } = allocator;
    yield* allocator.eachMap(this.#catalog, (sizeClass, chunk, states) => {
      for (let i = 0; i < states.length; i++) {
        const isLost = !isClaimedIn(states[i], claim) && states[i] !== BLOCK_LOCKED;
        if (!isLost) states[i] = BLOCK_FREE;
      }
      this.#maps.set(chunk, { sizeClass, states });
    });
  }

  /** Clears a block of suspicion. The address may be any number. */
  clear(address: Address): void {
    if (!this.#pool.chunks.isBlockAddress(address)) return;
    const { chunks, layout } = this.#pool;
    const chunk = chunks.chunkOf(address);
    const map = this.#maps.get(chunk);
    if (map === undefined) return;
    const { units, mapBytes, blocks } = map.sizeClass;
    const index = (address - layout.chunkStart(chunk) - mapBytes) / (units * UNIT_BYTES);
    if (Number.isInteger(index) && index >= 0 && index < blocks) map.states[index] = BLOCK_FREE;
  }

  /**
   * Step 6, in an announced epoch: frees the suspects whose state has not changed; returns how
   * many. Reads the chunk's word before and after the states, so that they are known to be states.
   */
  *free(): Operation<number> {
    const { allocator, layout } = this.#pool;
    for (const [chunk, { states }] of this.#maps) {
      if (states.every((state) => state === BLOCK_FREE)) this.#maps.delete(chunk);
    }
    yield* this.#forgetRecycled();
    const left = [...this.#maps].map(([chunk, { sizeClass }]) => ({ chunk, sizeClass }));
    yield* allocator.readMaps(left, (_, chunk, now) => {
      const { states } = this.#maps.get(chunk) as SuspectMap;
      for (let i = 0; i < states.length; i++) if (states[i] !== now[i]) states[i] = BLOCK_FREE;
    });
    yield* this.#forgetRecycled();
    let freed = 0;
    for (const [chunk, { sizeClass, states }] of this.#maps) {
      const start = layout.chunkStart(chunk);
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (states[i] === BLOCK_FREE) continue;
        allocator.free(sizeClass.blockAt(start, i), sizeClass.units, this.#catalog);
        freed++;
      }
    }
    yield* allocator.flushFreed();
    return freed;
  }

  /** Drops chunks that serve another use by now. */
  *#forgetRecycled(): Operation<void> {
    if (this.#maps.size === 0) return;
    const words = new Map(yield* this.#pool.chunks.words());
    for (const [chunk, { sizeClass }] of this.#maps) {
      const word = unpackChunk(words.get(chunk) ?? 0n);
      if (!isFor(this.#catalog, sizeClass.units, word)) this.#maps.delete(chunk);
    }
  }
}

/**
 * Visits every block, of the index itself and of records, that stays reachable throughout. May
 * visit more, but never fewer.
 */
export function* eachReachable(
  index: Pick<Index, 'parts' | 'records' | 'newRequest'>,
  visit: (address: Address) => void,
): Operation<void> {
  const parts = index.parts(0, true);
  const request = index.newRequest();
  for (; !parts.order.done; parts.order.pass()) {
    yield* parts.read();
    parts.eachBlock?.(visit);
    yield* eachRecordBlock(parts, index.records, request, visit);
  }
  yield* parts.eachOtherBlock?.(visit) ?? [];
}

/** Visits all blocks of the records that slots name. */
function* eachRecordBlock(
  slots: Parts,
  records: RecordIo,
  request: Request,
  visit: (address: Address) => void,
): Operation<void> {
  const { unitsMax = SLOT_UNITS_MAX } = slots;
  const long: Address[] = [];
  slots.eachSlot((record, units, isClaim) => {
    visit(record);
    // A claim that was withdrawn while a mover had frozen it may name a block that was reused
    // since. And the further blocks of a dead client's claim are never read again.
    if (units >= unitsMax && !isClaim) long.push(record);
  });
  for (const record of long) {
    yield* records.adopt(request, record, unitsMax);
    for (const { address } of yield* records.foundBlocks(request, record)) visit(address);
  }
}
