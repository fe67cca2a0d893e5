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

/** Most chunks recycled at one quiescent point, so that no operation waits for more. */
const EMPTIED_AT_ONCE = 16;
const RECLAIM_ATTEMPTS = 40;
/** For an epoch that stands still: a process that waits for a processor is no laggard yet. */
const STANDSTILL_ATTEMPTS = 500;
/** How long a leaving client waits for the others to let go of what it retired. */
const DEPARTURE_ATTEMPTS = 20;
const RECLAIM_PAUSE_MICROSECONDS = 1000;

/**
 * A client's attachment to a pool: its tables and its protocols, as operations. A driver runs them,
 * and decides when: `LocalPool` on shared memory, `RemotePool` over a network.
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
  /** Counts what this client does, for those who watch the pool. */
  readonly meter = new Meter();
  /** Names the client that sweeps: see indexes/sweep.ts. */
  readonly sweeper: HolderWord;
  /** Milliseconds, at least, from one search for lagging clients to the next. */
  readonly #livenessIntervalMs: number;
  /** Whether this client may write to nothing but its row: it cleans up after no other. */
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
   * Cleans up after clients that are gone, so that a row is free, and takes one. It can then finish
   * what dead clients were doing under locks, which takes an intent slot.
   */
  *joining(name: string): Operation<void> {
    yield* this.recovering(() => true);
    yield* this.membership.join(name);
    this.allocator.own(this.membership.id, this.membership.incarnation);
    yield* this.recovering(() => true);
  }

  /** Milliseconds until there is something to tell; Infinity when there is nothing. */
  get tellsInMs(): number {
    // An idle client has claimed nothing. Skipping the sum matters: each turn of the loop asks.
    const claimed = this.reclamation.online ? this.allocator.claimedUnits : 0;
    this.meter.noteHeld(claimed, this.reclamation.waitingUnits);
    return this.meter.dueInMs;
  }

  /** Publishes what this client has done and holds, unless it has left the pool. */
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

  /** For an idle client: frees what it retired, and recycles chunks that this empties. */
  *collectIdle(): Operation<void> {
    const { allocator, reclamation } = this;
    if (reclamation.retired > 0) yield* reclamation.collect();
    if (reclamation.retired > 0 || !allocator.hasEmptied) return;
    // No caller would see an error here: the next operation raises it.
    if (!(yield* this.usable())) return;
    allocator.leaveChunks();
    yield* reclamation.duringEpoch(() => recycleEmptied(this, EMPTIED_AT_ONCE));
  }

  /** Recycles chunks that this client may have emptied. Only at a quiescent point. */
  *recyclingOwn(): Operation<void> {
    if (this.allocator.hasEmptied) yield* recycleEmptied(this, EMPTIED_AT_ONCE);
  }

  /**
   * Stores may have been closed, or dropped by another client of this thread: gives up at once what
   * this client has of them. Only between operations.
   */
  *lettingGo(): Operation<void> {
    yield* this.reclamation.goOffline();
    if (this.reclamation.retired > 0) yield* this.reclamation.collect();
    yield* this.stores.lookAgain();
  }

  /** Whether this client may go on: it was not declared dead, nor the pool destroyed. */
  *usable(): Operation<boolean> {
    if ((yield* control.load(SUPERBLOCK.destroyed)) !== 0n) return false;
    return yield* this.membership.holdsRow();
  }

  /**
   * Tries to bring back memory after SW_POOL_FULL, only between operations. Gives back what this
   * client has claimed ahead, frees what it has retired, and recycles chunks of any store and size
   * that have no block in use. True when something may have come free.
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
   * As `reclaiming`, when nothing else has helped: also tries chunks again that it has tried
   * without success. True when there are such chunks, of which some may have free blocks by now.
   */
  *reclaimingAnew(): Operation<boolean> {
    if (!this.chunks.survey.forgetVain()) return false;
    yield* this.reclaiming();
    return true;
  }

  /**
   * Frees what this client has retired, only between operations. True when less waits than before,
   * or nothing.
   */
  *ripening(): Operation<boolean> {
    const { reclamation } = this;
    // `quiesce` may free some, too.
    const before = reclamation.retired;
    yield* reclamation.quiesce();
    if (reclamation.retired === 0) return true;
    yield* reclamation.collect();
    return reclamation.retired < before || (yield* this.#outwaiting(before));
  }

  /**
   * Stays idle until fewer than `most` blocks and chunks wait. False when other clients hold them
   * back: it gives up when the epoch stands still, at once if it did so at the last call.
   */
  *#outwaiting(most: number): Operation<boolean> {
    const { reclamation } = this;
    let epoch = yield* reclamation.readEpoch();
    const attempts = epoch === this.#stoodStillAt ? 1 : STANDSTILL_ATTEMPTS;
    for (let attempt = 0; reclamation.retired >= most; attempt++) {
      if (attempt === attempts) {
        this.#stoodStillAt = epoch;
        return false;
      }
      yield* reclamation.goOffline();
      yield* reclamation.collect();
      if (reclamation.retired < most) break;
      yield* this.recoverLagging();
      yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
      const now = yield* reclamation.readEpoch();
      if (now !== epoch) attempt = 0;
      epoch = now;
    }
    return true;
  }

  /**
   * Is idle until it is this epoch: only between operations. False when a client stands still.
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

  /** Looks whether the clients that hold back the epoch are still there. */
  *recoverLagging(): Operation<void> {
    if (this.reclamation.lagging.length === 0) return;
    // A busy client lags now and then; asking the system about it each time would cost more.
    const now = performance.now();
    if (now - this.#askedAt < this.#livenessIntervalMs) return;
    this.#askedAt = now;
    const lagging = new Set(this.reclamation.lagging);
    yield* this.recovering((row) => lagging.has(row.id));
  }

  /** Cleans up after those clients that are gone and that `concerns` says. */
  *recovering(concerns: (row: ClientRow) => boolean): Operation<void> {
    if (this.#readOnly) return;
    for (const row of yield* this.membership.rows()) {
      if (row.id === this.membership.id || !concerns(row)) continue;
      if (yield* this.membership.isGone(row)) yield* this.#takeOver(row);
    }
  }

  /**
   * Cleans up after a dead client. It first does what the client was doing under locks: nothing
   * that the client was about to link may be swept. That may fail, so the row is claimed only
   * afterwards. The next client to meet a half-done change without locks finishes it. A sweep
   * brings back the blocks that the dead client had claimed or retired.
   */
  *#takeOver(row: ClientRow): Operation<void> {
    if (!(yield* this.repairs.settleRow(row))) return;
    if (!(yield* this.membership.claimRecovery(row))) return;
    const { id: client, name, thread } = row;
    const message = () => {
      return { pool: this.layout.parameters.poolId, client, name, pid: thread.pid };
    };
    publish('death', message);
    yield* this.#bury(row.id);
    yield* this.#settleChunks(row.id, row.incarnation);
    yield* this.membership.finishRecovery(row);
    publish('recovery', message);
  }

  /**
   * Counts a client that leaves unreachable blocks in use, in every store that its row names. This
   * comes before its row is free: if the recoverer dies in between, the client is counted twice,
   * but blocks are never left uncounted.
   */
  *#bury(id: number): Operation<void> {
    const { stores } = yield* this.membership.rowNamed(id);
    for (const catalog of storesIn(stores)) yield* this.catalog.addUnswept(catalog, 1);
  }

  /** Undoes or finishes what a client that is gone had begun with chunks that it owned. */
  *#settleChunks(owner: number, incarnation: number): Operation<void> {
    for (const chunk of yield* this.chunks.settleOwned(owner, incarnation)) {
      yield* unlockEmptied(this, chunk, owner);
    }
  }

  /**
   * The pool's part of `close`; call it only between operations. It does nothing if this client was
   * declared dead while it stood still. Its row may be another client's by now, whose announced
   * epoch must not be cleared, and the blocks that it had cached may be in use.
   */
  *departing(): Operation<void> {
    if (!(yield* this.membership.holdsRow())) return;
    yield* this.reclamation.goOffline();
    // An operation failed under its lock. The row is kept, as a dead client's, until the thread
    // ends: then others do what its intent says.
    if (!this.intents.areFree) return;
    for (let i = 0; this.reclamation.retired > 0 && i < DEPARTURE_ATTEMPTS; i++) {
      yield* this.reclamation.collect();
      if (this.reclamation.retired > 0) yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
    }
    if (this.reclamation.retired > 0) yield* this.#bury(this.membership.id);
    yield* this.#settleChunks(this.membership.id, this.membership.incarnation);
    yield* this.membership.leave();
  }
}
