import { publish } from '../diagnostics.ts';
import type { Operation } from '../verbs/index.ts';
import { Catalog } from './catalog.ts';
import { HolderWord } from './clients/holder-word.ts';
import { type ClientRow, Membership, type Registrar, storesIn } from './clients/membership.ts';
import { Meter } from './clients/meter.ts';
import { Reclamation } from './clients/reclamation.ts';
import { LocalRowLocks } from './clients/row-locks.ts';
import type { ThreadIdentity } from './clients/thread-identity.ts';
import { PoolClock, type Timer } from './clock.ts';
import { control } from './control.ts';
import { IntentSlots } from './intents/intent-slots.ts';
import { Repairs } from './intents/repair.ts';
import { PoolLayout, type PoolParameters, SUPERBLOCK } from './layout.ts';
import { Allocator } from './memory/allocator.ts';
import type { PoolMemory } from './memory/chunk-memory.ts';
import { ChunkTable } from './memory/chunks.ts';
import { recycleEmptied, unlockEmptied } from './memory/emptied-chunks.ts';
import { OpenStores } from './open-stores.ts';
import { UnwaitedWrites } from './unwaited-writes.ts';

/** Maximum chunks to recycle at a quiescent point. Bounds how long an operation waits for that. */
const EMPTIED_AT_ONCE = 16;
const RECLAIM_ATTEMPTS = 40;
/** Attempts while the epoch does not advance: a client may only be waiting for a CPU. */
const STANDSTILL_ATTEMPTS = 500;
/** Attempts of a leaving client to free what it has retired. */
const DEPARTURE_ATTEMPTS = 20;
const RECLAIM_PAUSE_MICROSECONDS = 1000;

/**
 * A client's attachment to a pool: its tables, and its protocols as operations. A driver decides
 * when to run them: `LocalPool` on shared memory, `RemotePool` over a network.
 */
export class Pool {
  readonly layout: PoolLayout;
  readonly membership: Membership;
  readonly chunks: ChunkTable;
  readonly allocator: Allocator;
  readonly catalog: Catalog;
  readonly reclamation: Reclamation;
  readonly stores: OpenStores;
  readonly intents: IntentSlots;
  readonly repairs: Repairs;
  /** This client's clock, by which it judges whether records have expired. */
  readonly clock = new PoolClock();
  /** This client's timer for giving up on a lock. Simulations have their own time. */
  readonly timer: Timer = { now: () => performance.now() };
  /** WRITEs that this client's operations do not wait for. */
  readonly unwaited = new UnwaitedWrites();
  /** Counts this client's operations, for monitoring. */
  readonly meter = new Meter();
  /** The word that names the client that is sweeping: see indexes/sweep.ts. */
  readonly sweeper: HolderWord;
  /** Minimum time between two checks of lagging clients, in milliseconds. */
  readonly #livenessIntervalMs: number;
  /** Whether this client may write only to its own row. It then cleans up after no other client. */
  readonly #readOnly: boolean;
  /** The epoch in which this client last waited for others without success. */
  #stoodStillAt = 0;
  /** When the operating system was last asked about lagging clients. */
  #askedAt = Number.NEGATIVE_INFINITY;

  /**
   * `thread` identifies a client that shares its thread with others, in a simulation, or that came
   * over a network. For the latter, `registrar` tells which clients of its kind are alive.
   */
  constructor(
    parameters: PoolParameters,
    memory: PoolMemory,
    livenessIntervalMs: number,
    thread?: ThreadIdentity,
    registrar?: Registrar,
    readOnly = false,
  ) {
    this.#readOnly = readOnly;
    this.#livenessIntervalMs = livenessIntervalMs;
    this.layout = new PoolLayout(parameters);
    const locks = registrar ?? (memory.locks && new LocalRowLocks(memory.locks));
    this.membership = new Membership(this.layout, this.clock, thread, registrar, locks);
    this.chunks = new ChunkTable(this.layout, memory);
    this.allocator = new Allocator(this.layout, this.chunks);
    this.catalog = new Catalog(this.membership, this.chunks, () => this.recovering(() => true));
    this.reclamation = new Reclamation(this.layout, this.membership, this.allocator);
    const { membership, catalog, allocator, reclamation } = this;
    this.stores = new OpenStores(membership, catalog, allocator, reclamation);
    this.intents = new IntentSlots(this.layout, membership, this.chunks);
    this.repairs = new Repairs(this);
    this.sweeper = new HolderWord(this.membership, SUPERBLOCK.sweeper);
  }

  /**
   * Cleans up after dead clients, so that a row is free, and takes one. Then cleans up again: the
   * client now has intent slots, which it needs to finish what dead clients did under locks.
   */
  *joining(name: string): Operation<void> {
    yield* this.recovering(() => true);
    yield* this.membership.join(name);
    const { id: owner, incarnation } = this.membership;
    this.allocator.client = { owner, incarnation };
    yield* this.recovering(() => true);
  }

  /** Milliseconds until this client must publish its figures; Infinity if nothing has changed. */
  get tellsInMs(): number {
    // An idle client has claimed nothing. Skip the sum, because each turn of the event loop asks.
    const claimed = this.reclamation.online ? this.allocator.claimedUnits : 0;
    this.meter.noteHeld(claimed, this.reclamation.waitingUnits);
    return this.meter.dueInMs;
  }

  /** Publishes what this client has done and what memory it holds, unless it has left the pool. */
  *telling(): Operation<void> {
    const { id } = this.membership;
    this.meter.noteHeld(this.allocator.claimedUnits, this.reclamation.waitingUnits);
    if (id !== 0) yield* this.meter.tell(this.unwaited, this.layout.clientEntry(id));
  }

  /** Claims blocks ahead of need, off the path of the operations (RACE section 4.2). */
  *prefetchBlocks(): Operation<void> {
    for (const sizeClass of this.allocator.classes()) {
      if (sizeClass.isLow) {
        sizeClass.wanted = false;
        yield* this.allocator.refillQuietly(sizeClass);
      }
    }
  }

  /** For an idle client: frees what it has retired, and recycles the chunks that this empties. */
  *collectIdle(): Operation<void> {
    const { allocator, reclamation } = this;
    if (reclamation.retired > 0) yield* reclamation.collect();
    if (reclamation.retired > 0 || !allocator.hasEmptied) return;
    // No caller would see an error from here; the next operation raises it.
    if (!(yield* this.usable())) return;
    allocator.leaveChunks();
    yield* reclamation.duringEpoch(() => recycleEmptied(this, EMPTIED_AT_ONCE));
  }

  /** Recycles chunks that this client may have emptied. Only at a quiescent point. */
  *recyclingOwn(): Operation<void> {
    if (this.allocator.hasEmptied) yield* recycleEmptied(this, EMPTIED_AT_ONCE);
  }

  /**
   * Call when stores may have been closed, or dropped by another client of this thread. Frees at
   * once what this client has of them. Only between operations.
   */
  *lettingGo(): Operation<void> {
    yield* this.reclamation.goOffline();
    if (this.reclamation.retired > 0) yield* this.reclamation.collect();
    yield* this.stores.lookAgain();
  }

  /** False if this client has been declared dead or the pool has been destroyed. */
  *usable(): Operation<boolean> {
    if ((yield* control.load(SUPERBLOCK.destroyed)) !== 0n) return false;
    return yield* this.membership.holdsRow();
  }

  /**
   * Tries to free memory after SW_POOL_FULL. Only between operations. Gives back what this client
   * has claimed ahead, frees what it has retired, and recycles chunks of any store and size that
   * have no block in use. True if something may have been freed.
   */
  *reclaiming(): Operation<boolean> {
    const { allocator, reclamation } = this;
    const hasFreed = reclamation.retired > 0 && (yield* this.ripening());
    yield* reclamation.quiesce();
    yield* allocator.surrender();
    const recycled = yield* recycleEmptied(this, EMPTIED_AT_ONCE);
    return (recycled > 0 && (yield* this.ripening())) || hasFreed;
  }

  /**
   * Like `reclaiming`, as a last resort: also retries chunks in which it has found nothing to claim
   * or recycle. True if there may be such chunks: some may have free blocks by now.
   */
  *reclaimingAnew(): Operation<boolean> {
    if (!this.chunks.survey.forgetFutile()) return false;
    yield* this.reclaiming();
    return true;
  }

  /**
   * Frees what this client has retired. Only between operations. True if fewer blocks are waiting
   * than before, or none.
   */
  *ripening(): Operation<boolean> {
    const { reclamation } = this;
    // `quiesce` may free some as well.
    const before = reclamation.retired;
    yield* reclamation.quiesce();
    if (reclamation.retired === 0) return true;
    yield* reclamation.collect();
    return reclamation.retired < before || (yield* this.#waitingForEpochs(before));
  }

  /**
   * Goes offline until fewer than `most` retired blocks and chunks are waiting. False if other
   * clients hold them back: it gives up if the epoch does not advance, and after one attempt if it
   * gave up in this epoch before.
   */
  *#waitingForEpochs(most: number): Operation<boolean> {
    const { reclamation } = this;
    let epoch = yield* reclamation.readEpoch();
    let attempts = epoch === this.#stoodStillAt ? 1 : STANDSTILL_ATTEMPTS;
    while (reclamation.retired >= most) {
      if (attempts-- === 0) {
        this.#stoodStillAt = epoch;
        return false;
      }
      yield* reclamation.goOffline();
      yield* reclamation.collect();
      if (reclamation.retired < most) break;
      yield* this.recoverLagging();
      yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
      const now = yield* reclamation.readEpoch();
      if (now !== epoch) attempts = STANDSTILL_ATTEMPTS;
      epoch = now;
    }
    return true;
  }

  /**
   * Waits offline for this epoch. Only between operations. False if a client does not advance.
   */
  *reaching(epoch: number): Operation<boolean> {
    const { reclamation } = this;
    yield* reclamation.goOffline();
    let now = yield* reclamation.readEpoch();
    for (let waits = 0; now < epoch && waits < RECLAIM_ATTEMPTS; ) {
      const before = now;
      yield* reclamation.collect();
      yield* reclamation.advanceBeyond(epoch - 1);
      now = yield* reclamation.readEpoch();
      if (now > before) continue;
      yield* this.recoverLagging();
      yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
      waits++;
    }
    return now >= epoch;
  }

  /** Recovers those clients that hold back the epoch and are dead. */
  *recoverLagging(): Operation<void> {
    if (this.reclamation.lagging.length === 0) return;
    // A busy client lags now and then; asking the system about it every time would cost too much.
    const now = performance.now();
    if (now - this.#askedAt < this.#livenessIntervalMs) return;
    this.#askedAt = now;
    const lagging = new Set(this.reclamation.lagging);
    yield* this.recovering((row) => lagging.has(row.id));
  }

  /** Cleans up after the dead clients among those for which `concerns` returns true. */
  *recovering(concerns: (row: ClientRow) => boolean): Operation<void> {
    if (this.#readOnly) return;
    for (const row of yield* this.membership.rows()) {
      if (row.id === this.membership.id || !concerns(row)) continue;
      if (yield* this.membership.isGone(row)) yield* this.#takeOver(row);
    }
  }

  /**
   * Cleans up after a dead client. First finishes what the client was doing under locks, because a
   * sweep must not free what the client was about to link. This may fail, so the row is claimed
   * only afterwards. The next client to meet a half-done change without locks finishes it. A sweep
   * frees the blocks that the dead client had claimed or retired.
   */
  *#takeOver(row: ClientRow): Operation<void> {
    if (!(yield* this.repairs.settleRow(row))) return;
    if (!(yield* this.membership.claimRecovery(row))) return;
    const { id: client, name, thread } = row;
    const message = () => {
      return { pool: this.layout.parameters.poolId, client, name, pid: thread.pid };
    };
    publish('death', message);
    yield* this.#countUnswept(row.id);
    yield* this.#settleChunks(row.id, row.incarnation);
    yield* this.membership.finishRecovery(row);
    publish('recovery', message);
  }

  /**
   * Counts a client that leaves unreachable blocks in use, in every store that its row names. Runs
   * before the row is freed. If this client dies in between, the dead client is counted twice, but
   * never left uncounted.
   */
  *#countUnswept(id: number): Operation<void> {
    const { stores } = yield* this.membership.rowNamed(id);
    for (const catalog of storesIn(stores)) yield* this.catalog.addUnswept(catalog, 1);
  }

  /** Undoes or finishes the chunk changes of a client that owned chunks when it died or left. */
  *#settleChunks(owner: number, incarnation: number): Operation<void> {
    for (const chunk of yield* this.chunks.settleOwned(owner, incarnation)) {
      yield* unlockEmptied(this, chunk, owner);
    }
  }

  /**
   * The pool's part of `close`; call it only between operations. Does nothing if this client was
   * declared dead while it was paused. Its row may now be another client's, whose announced epoch
   * must not be cleared, and the blocks that it had cached may be in use.
   */
  *departing(): Operation<void> {
    if (!(yield* this.membership.holdsRow())) return;
    yield* this.reclamation.goOffline();
    // An operation has failed while it held a lock. Keep the row until the thread ends: other
    // clients then treat this client as dead and finish its intent.
    if (!this.intents.areFree) return;
    for (let i = 0; this.reclamation.retired > 0 && i < DEPARTURE_ATTEMPTS; i++) {
      yield* this.reclamation.collect();
      if (this.reclamation.retired > 0) yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
    }
    if (this.reclamation.retired > 0) yield* this.#countUnswept(this.membership.id);
    yield* this.#settleChunks(this.membership.id, this.membership.incarnation);
    yield* this.membership.leave();
  }
}
