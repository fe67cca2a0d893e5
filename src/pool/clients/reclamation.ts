import { invariant, StepwellError } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  offsetOf,
  readInteger,
  regionOf,
  Scratch,
  swapped,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import {
  CHUNK_BYTES,
  CLIENT_ENTRY_BYTES,
  CLIENTS_OFFSET,
  type PoolLayout,
  SUPERBLOCK,
} from '../layout.ts';
import type { Allocator } from '../memory/allocator.ts';
import { EPOCHS_TO_RIPEN, Limbo } from './limbo.ts';
import { EPOCH, LIMBO_FLOOR, type Membership } from './membership.ts';

/**
 * Retired blocks, or lines of them, that make an attempt to advance the epoch worth its scan of the
 * client table: an index that retires large blocks would otherwise let megabytes of them wait.
 */
const RETIRED_PER_ADVANCE = 128;
/** The same in a full pool, where other clients lack what this one has retired. */
const RETIRED_PER_TIGHT_ADVANCE = 16;
const RETIRED_UNITS_PER_ADVANCE = 2 ** 20 / UNIT_BYTES;
const FREED_AT_ONCE = 512;
const CHUNK_UNITS = CHUNK_BYTES / UNIT_BYTES;
/** Stands for the units of a chunk that is part of a span. */
const SPAN_CHUNK = 0;
/** Stands for the units of a chunk that this client recycles: see memory/emptied-chunks.ts. */
const EMPTIED_CHUNK = 2 ** 16 - 1;

/** As they stand in the superblock from the epoch on, so that one READ brings all of them. */
const EPOCH_AT = 0;
const MIGRATIONS = SUPERBLOCK.migrations - SUPERBLOCK.epoch;
const DESTROYED = SUPERBLOCK.destroyed - SUPERBLOCK.epoch;
const DROPS = SUPERBLOCK.drops - SUPERBLOCK.epoch;
const SWEEP_PHASE = SUPERBLOCK.sweepPhase - SUPERBLOCK.epoch;
const FRONTIER = SUPERBLOCK.frontier - SUPERBLOCK.epoch;
const LOOKED_BYTES = 48;
const OWN_EPOCH = 48;
const OWN_FLOOR = 56;
const OWN_STATE = 64;
const SWAP = 72;

/** Memory that this client has comes free in an epoch, which may be soon. */
export class FullForNow extends StepwellError {
  readonly epoch: number;

  constructor(epoch: number) {
    super('SW_POOL_FULL', 'the pool is full, and a client that stands still keeps memory from it');
    this.epoch = epoch;
  }
}

/**
 * Epoch-based reclamation by quiescent states. A client announces the global epoch between two
 * operations, when it holds no address; it announces 0 when it goes idle. The epoch moves on when
 * every live client has announced it or is idle. Nothing on the path of an operation.
 *
 * A client that is stopped in the middle of a burst holds back re-use (the pool may fill up) until
 * it goes on or is gone; nothing else may declare it dead, because it can still issue verbs.
 */
export class Reclamation {
  readonly #layout: PoolLayout;
  readonly #membership: Membership;
  readonly #allocator: Allocator;
  readonly #limbo = new Limbo();
  readonly #batch = new Batch();
  readonly #words = new Scratch(SWAP + CAS_BYTES);
  readonly #table: Scratch;
  #announced = 0;
  #publishedFloor = 0;
  #retiredSinceAdvance = 0;
  #unitsSinceAdvance = 0;
  #waitingUnits = 0;
  #migrations = 0;
  /** How many stores had been dropped at the last quiescent point. */
  drops = 0;
  /** Clients that kept the epoch from moving at the last attempt, by id. */
  lagging: number[] = [];

  constructor(layout: PoolLayout, membership: Membership, allocator: Allocator) {
    this.#layout = layout;
    this.#membership = membership;
    this.#allocator = allocator;
    this.#table = new Scratch(layout.parameters.clientsMax * CLIENT_ENTRY_BYTES);
  }

  get retired(): number {
    return this.#limbo.length;
  }

  /** Units of blocks and spans that wait, without chunks that are recycled. */
  get waitingUnits(): number {
    return this.#waitingUnits;
  }

  get online(): boolean {
    return this.#announced !== 0;
  }

  /** The epoch that this client has announced, 0 when it is idle. */
  get announced(): number {
    return this.#announced;
  }

  /**
   * How often an index had moved memory when this client announced its epoch. An index whose
   * clients keep addresses from one operation to the next looks them up again when this has
   * changed: what it has moved is re-used only after every client has announced a later epoch, and
   * with each announcement, after it, this is read. So it costs no round trip.
   */
  get migrations(): number {
    return this.#migrations;
  }

  /** Call after memory was moved and unlinked, and before it is retired. */
  *countMigration(): Operation<void> {
    writeInteger(this.#words, SWAP, 1);
    yield this.#batch.clear().faa(SUPERBLOCK.migrations, this.#words, SWAP);
  }

  /** As counted now. */
  *readDrops(): Operation<void> {
    yield this.#batch.clear().read(SUPERBLOCK.drops, 8, this.#words, DROPS);
    this.drops = readInteger(this.#words, DROPS);
  }

  /**
   * As counted now: for a client that has announced no epoch, before and after looking addresses
   * up.
   */
  *readMigrations(): Operation<number> {
    yield this.#batch.clear().read(SUPERBLOCK.migrations, 8, this.#words, MIGRATIONS);
    this.#migrations = readInteger(this.#words, MIGRATIONS);
    return this.#migrations;
  }

  /** Blocks that this client has retired and not yet freed. */
  waiting(): Address[] {
    return this.#limbo.addresses();
  }

  /** How many of these belong to a store and have this size. */
  waitingOf(catalog: number, units: number): number {
    return this.#limbo.count(catalog * 65536 + units);
  }

  /** Whether some of these is a store's. */
  isWaiting(catalog: number): boolean {
    return this.#limbo.some((key) => Math.floor(key / 65536) === catalog);
  }

  /** Call after the block was unlinked, from within an operation. */
  retire(address: Address, units: number, catalog: number): void {
    invariant(this.#announced !== 0, 'a client that is idle retires a block');
    this.#limbo.push(address, catalog * 65536 + units, this.#announced);
    this.#retiredSinceAdvance++;
    this.#unitsSinceAdvance += units;
    this.#waitingUnits += units;
  }

  /** As `retire`, of chunks of a span that this client owns; see Spans.takeOver. */
  retireSpan(chunks: readonly number[], catalog: number): void {
    invariant(this.online || chunks.length === 0, 'a client that is idle retires a span');
    const { length } = this.#limbo;
    for (const chunk of chunks) {
      const address = this.#layout.chunkStart(chunk);
      this.#limbo.push(address, catalog * 65536 + SPAN_CHUNK, this.#announced);
    }
    this.#retiredSinceAdvance += this.#limbo.length - length;
    this.#unitsSinceAdvance += chunks.length * CHUNK_UNITS;
    this.#waitingUnits += chunks.length * CHUNK_UNITS;
  }

  /** As `retire`, of a chunk that this client has locked: see memory/emptied-chunks.ts. */
  retireEmptied(chunk: number, catalog: number): void {
    invariant(this.online, 'a client that is idle retires a chunk');
    const address = this.#layout.chunkStart(chunk);
    this.#limbo.push(address, catalog * 65536 + EMPTIED_CHUNK, this.#announced);
    this.#unitsSinceAdvance += CHUNK_UNITS;
  }

  /**
   * The quiescent point: only between operations. Publishes the floor before the new epoch, so that
   * a sweep that has seen two epochs pass has seen every floor that matters.
   */
  *quiesce(): Operation<void> {
    yield* this.#publishFloor();
    const epoch = yield* this.#look();
    if (readInteger(this.#words, DESTROYED) !== 0) {
      const why = 'the pool was destroyed while it was open; close its stores and open it again';
      throw new StepwellError('SW_POOL_DESTROYED', why);
    }
    if (epoch === undefined) {
      throw new StepwellError('SW_REVOKED', 'this client was declared dead; open the pool again');
    }
    invariant(epoch > 0, 'the epoch of the pool is 0, which stands for an idle client');
    if (epoch !== this.#announced) yield* this.#comeOnline(epoch);
    if (this.#isWorthAdvancing) yield* this.collect(epoch);
  }

  get #isWorthAdvancing(): boolean {
    const { isTight } = this.#allocator;
    const most = isTight ? RETIRED_PER_TIGHT_ADVANCE : RETIRED_PER_ADVANCE;
    if (this.#retiredSinceAdvance >= most) return true;
    return this.#unitsSinceAdvance >= RETIRED_UNITS_PER_ADVANCE;
  }

  /**
   * An operation of a client that may not have announced an epoch, while it opens a store, say:
   * what it reads could be re-used under its hands, and what it retires at once. Frees that, if the
   * others let it: the client may do nothing more, and a sweep would wait for it.
   */
  *duringEpoch<T>(operation: () => Operation<T>): Operation<T> {
    if (this.online) return yield* operation();
    yield* this.quiesce();
    try {
      return yield* operation();
    } finally {
      yield* this.goOffline();
      if (this.retired > 0) yield* this.collect();
    }
  }

  /**
   * Moves the epoch on, as far as the oldest retired block needs and the others let it, and frees
   * what has ripened. When all others are idle nothing has to wait.
   *
   * An idle client does this too. When it was declared dead since, a sweep may have brought back
   * what it retired, so that the blocks are in use again: they are not its to free any more.
   */
  *collect(epoch?: number): Operation<void> {
    this.#retiredSinceAdvance = 0;
    this.#unitsSinceAdvance = 0;
    const looked = epoch ?? (yield* this.#look());
    if (looked === undefined) return;
    let now = looked;
    for (let step = 0; step < EPOCHS_TO_RIPEN && !this.#limbo.isRipe(now); step++) {
      const before = now;
      now = yield* this.#advance(now);
      if (now === before) break;
      if (this.#announced !== 0) yield* this.#announce(now);
    }
    yield* this.#freeRipe(now);
    // After the freeing: a client that waits for this one's floor may act on it.
    yield* this.#publishFloor();
  }

  /** One attempt to make the epoch greater than `epoch`; a sweep waits for that. */
  *advanceBeyond(epoch: number): Operation<void> {
    // No attempt waits for this client's own announcement, and this one makes none.
    invariant(!this.online, 'a client moves the epoch on and stays in an earlier one');
    const now = yield* this.readEpoch();
    if (now <= epoch) yield* this.#advance(now);
  }

  /**
   * From now on, until it announces an epoch again, this client holds no address and no claimed
   * block. A client that was declared dead gives nothing back: its blocks are not its own any more.
   */
  *goOffline(): Operation<void> {
    yield* this.#publishFloor();
    if (this.#announced === 0) return;
    if (this.#allocator.holdsClaims && (yield* this.#look()) === undefined) {
      this.#allocator.forgetClaims();
    }
    yield* this.#allocator.end();
    yield* this.#announce(0);
  }

  /**
   * Whether every block that any client had unlinked by `epoch` has been freed or is held by
   * no client: every one has passed a quiescent point since, where it published its floor, and no
   * floor is that old. Epochs are read before floors, as clients write floors before epochs.
   */
  *drainedUpTo(epoch: number): Operation<boolean> {
    const words = this.#layout.parameters.clientsMax * CLIENT_ENTRY_BYTES;
    yield this.#batch.clear().read(CLIENTS_OFFSET, words, this.#table, 0);
    for (let at = 0; at < words; at += CLIENT_ENTRY_BYTES) {
      const announced = readInteger(this.#table, at + EPOCH);
      if (announced !== 0 && announced <= epoch) return false;
    }
    yield this.#batch.clear().read(CLIENTS_OFFSET, words, this.#table, 0);
    for (let at = 0; at < words; at += CLIENT_ENTRY_BYTES) {
      const floor = readInteger(this.#table, at + LIMBO_FLOOR);
      if (floor !== 0 && floor <= epoch) return false;
    }
    return true;
  }

  /**
   * Announces until the announced epoch is still the global one afterwards. A client that paused
   * between reading the epoch and announcing it would otherwise tag what it retires with an epoch
   * that readers have long left behind.
   */
  *#comeOnline(epoch: number): Operation<void> {
    invariant(epoch >= this.#announced, 'the epoch went back behind what was announced');
    for (let now = epoch; now !== this.#announced; ) {
      yield* this.#announce(now);
      now = yield* this.readEpoch();
    }
  }

  *#announce(epoch: number): Operation<void> {
    // The next READ of this client is ordered after this WRITE by the contract.
    writeInteger(this.#words, OWN_EPOCH, epoch);
    const own = this.#layout.clientEntry(this.#membership.id) + EPOCH;
    yield this.#batch
      .clear()
      .write(own, 8, this.#words, OWN_EPOCH)
      .read(SUPERBLOCK.migrations, LOOKED_BYTES - MIGRATIONS, this.#words, MIGRATIONS);
    this.#migrations = readInteger(this.#words, MIGRATIONS);
    if (epoch !== 0) {
      const phase = readInteger(this.#words, SWEEP_PHASE);
      yield* this.#allocator.begin(phase, readInteger(this.#words, FRONTIER));
    }
    // Last: when this fails, the next quiescent point announces again.
    this.#announced = epoch;
  }

  *#publishFloor(): Operation<void> {
    const { floor } = this.#limbo;
    if (floor === this.#publishedFloor) return;
    writeInteger(this.#words, OWN_FLOOR, floor);
    const own = this.#layout.clientEntry(this.#membership.id) + LIMBO_FLOOR;
    yield this.#batch.clear().write(own, 8, this.#words, OWN_FLOOR);
    this.#publishedFloor = floor;
  }

  /** The epoch; undefined when this client was declared dead. */
  *#look(): Operation<number | undefined> {
    yield this.#batch
      .clear()
      .read(SUPERBLOCK.epoch, LOOKED_BYTES, this.#words, EPOCH_AT)
      .read(this.#layout.clientEntry(this.#membership.id), 8, this.#words, OWN_STATE);
    this.drops = readInteger(this.#words, DROPS);
    const isOwn = this.#membership.isOwnState(this.#words.i64[OWN_STATE >> 3]);
    return isOwn ? readInteger(this.#words, EPOCH_AT) : undefined;
  }

  *readEpoch(): Operation<number> {
    yield this.#batch.clear().read(SUPERBLOCK.epoch, 8, this.#words, EPOCH_AT);
    return readInteger(this.#words, EPOCH_AT);
  }

  /** Returns the epoch after the attempt. */
  *#advance(epoch: number): Operation<number> {
    yield this.#batch.clear().read(CLIENTS_OFFSET, this.#table.u8.length, this.#table, 0);
    this.lagging = this.#laggards(epoch);
    if (this.lagging.length > 0) return epoch;
    writeInteger(this.#words, SWAP, epoch);
    writeInteger(this.#words, SWAP + 8, epoch + 1);
    yield this.#batch.clear().cas(SUPERBLOCK.epoch, this.#words, SWAP);
    if (swapped(this.#words, SWAP)) return epoch + 1;
    const now = readInteger(this.#words, SWAP + 16);
    invariant(now > epoch, 'the epoch went back');
    return now;
  }

  #laggards(epoch: number): number[] {
    const found: number[] = [];
    const { clientsMax } = this.#layout.parameters;
    for (let row = 0; row < clientsMax; row++) {
      const at = row * CLIENT_ENTRY_BYTES;
      // Whatever the row's state: an epoch that is still announced belongs to a client that has not
      // left, or to a dead one that no client has cleaned up after yet.
      const announced = readInteger(this.#table, at + EPOCH);
      if (announced !== 0 && announced !== epoch && row + 1 !== this.#membership.id) {
        found.push(row + 1);
      }
    }
    return found;
  }

  *#freeRipe(epoch: number): Operation<void> {
    for (;;) {
      const batch = this.#batch.clear();
      const freed = this.#limbo.drain(epoch, FREED_AT_ONCE, (address, key) => {
        const units = key % 65536;
        const catalog = Math.floor(key / 65536);
        const chunk = this.#layout.chunkAt(regionOf(address), offsetOf(address));
        if (units !== EMPTIED_CHUNK)
          this.#waitingUnits -= units === SPAN_CHUNK ? CHUNK_UNITS : units;
        if (units === SPAN_CHUNK) this.#allocator.spans.free(catalog, chunk, batch);
        else if (units === EMPTIED_CHUNK) this.#allocator.recycle(chunk, batch);
        else this.#allocator.free(address, units, catalog);
      });
      invariant(this.#waitingUnits >= 0, 'more comes free than was retired');
      if (batch.length > 0) yield batch;
      yield* this.#allocator.flushFreed();
      if (freed === 0) return;
    }
  }
}
