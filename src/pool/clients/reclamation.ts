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
 * After this many retired blocks, an attempt to advance the epoch is worth scanning the client
 * table; or after RETIRED_UNITS_PER_ADVANCE lines of them. Without the second limit, megabytes of
 * large blocks could wait.
 */
const RETIRED_PER_ADVANCE = 128;
/** The same in a full pool, where other clients lack what this one has retired. */
const RETIRED_PER_TIGHT_ADVANCE = 16;
const RETIRED_UNITS_PER_ADVANCE = 2 ** 20 / UNIT_BYTES;
const FREED_AT_ONCE = 512;
/**
 * Blocks that come free at one quiescent point in a full pool, where quiescent points are frequent:
 * a SepHash merge retires a hundred, each in another chunk. A longer limbo loses a share instead.
 */
const FREED_WHEN_TIGHT = 32;
const FREED_SHARE = 1 / 4;
const CHUNK_UNITS = CHUNK_BYTES / UNIT_BYTES;
/** In place of units: a chunk of a span. */
const SPAN_CHUNK = 0;
/** In place of units: a chunk that this client recycles. See memory/emptied-chunks.ts. */
const EMPTIED_CHUNK = 2 ** 16 - 1;

/** Offsets of words in the superblock, from the epoch on: one READ fetches all of them. */
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

/**
 * SW_POOL_FULL for now: at `epoch`, perhaps soon, memory that this client retired can be reused.
 */
export class FullForNow extends StepwellError {
  readonly epoch: number;

  constructor(epoch: number) {
    super('SW_POOL_FULL', 'the pool is full, and a stopped client holds back its memory');
    this.epoch = epoch;
  }
}

/**
 * Epoch-based reclamation by quiescent states. A client announces the global epoch between two
 * operations, when it holds no address; it announces 0 when it goes idle. The epoch advances when
 * every live client has announced it or is idle. Operations themselves pay nothing.
 *
 * A client that is stopped inside an operation holds back reuse until it goes on or is gone, and
 * the pool may fill up. No client may declare it dead before, because it can still issue verbs.
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
  /** Whether the last quiescent point left ripe blocks. */
  #leftSome = false;
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
   * How often an index had moved memory when this client announced its epoch. Clients that keep
   * addresses from one operation to the next look them up again when this has changed. That is
   * early enough. Moved memory is reused only after every client has announced a later epoch, and
   * each announcement reads this word, so it costs no round trip.
   */
  get migrations(): number {
    return this.#migrations;
  }

  /** Call after memory was moved and unlinked, and before it is retired. */
  *countMigration(): Operation<void> {
    writeInteger(this.#words, SWAP, 1);
    yield this.#batch.clear().faa(SUPERBLOCK.migrations, this.#words, SWAP);
  }

  /** Reads the current count of dropped stores. */
  *readDrops(): Operation<void> {
    yield this.#batch.clear().read(SUPERBLOCK.drops, 8, this.#words, DROPS);
    this.drops = readInteger(this.#words, DROPS);
  }

  /**
   * Reads the current count: for a client that has announced no epoch, before and after it looks up
   * addresses.
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

  /** How many waiting blocks belong to the store and have this size. */
  waitingOf(catalog: number, units: number): number {
    return this.#limbo.count(catalog * 65536 + units);
  }

  /** Whether a waiting block belongs to the store. */
  isWaiting(catalog: number): boolean {
    return this.#limbo.some((key) => Math.floor(key / 65536) === catalog);
  }

  /** Call after the block was unlinked, from within an operation. */
  retire(address: Address, units: number, catalog: number): void {
    invariant(this.#announced !== 0, 'an idle client retires a block');
    this.#limbo.push(address, catalog * 65536 + units, this.#announced);
    this.#retiredSinceAdvance++;
    this.#unitsSinceAdvance += units;
    this.#waitingUnits += units;
  }

  /** As `retire`, of chunks of a span that this client owns; see Spans.takeOver. */
  retireSpan(chunks: readonly number[], catalog: number): void {
    invariant(this.online || chunks.length === 0, 'an idle client retires a span');
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
    invariant(this.online, 'an idle client retires a chunk');
    const address = this.#layout.chunkStart(chunk);
    this.#limbo.push(address, catalog * 65536 + EMPTIED_CHUNK, this.#announced);
    this.#unitsSinceAdvance += CHUNK_UNITS;
  }

  /**
   * The quiescent point: only between operations. Publishes the floor before the new epoch. So once
   * a sweep has seen two epochs pass, it sees the floor of every client that retired blocks before.
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
    if (this.#isWorthAdvancing) yield* this.collect(epoch, this.#freedMax);
    else if (this.#leftSome) yield* this.#freeRipe(epoch, this.#freedMax);
  }

  /** Most blocks to free at a quiescent point. */
  get #freedMax(): number {
    if (!this.#allocator.isTight) return Number.POSITIVE_INFINITY;
    return Math.max(FREED_WHEN_TIGHT, Math.ceil(FREED_SHARE * this.#limbo.length));
  }

  get #isWorthAdvancing(): boolean {
    const { isTight } = this.#allocator;
    const most = isTight ? RETIRED_PER_TIGHT_ADVANCE : RETIRED_PER_ADVANCE;
    if (this.#retiredSinceAdvance >= most) return true;
    return this.#unitsSinceAdvance >= RETIRED_UNITS_PER_ADVANCE;
  }

  /**
   * Runs an operation of a client that may not have announced an epoch, for example one that opens
   * a store. Without an epoch, what it reads could be reused at any time, and what it retires at
   * once. Afterwards frees what it retired, as far as other clients allow: this client may do
   * nothing more, and a sweep would wait for it.
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
   * Advances the epoch as far as the oldest retired block needs and other clients allow, then frees
   * the blocks that are due. If all other clients are idle, nothing has to wait.
   *
   * An idle client does this too. If it was declared dead meanwhile, it frees nothing: a sweep may
   * have freed what it retired, and the blocks may be in use again.
   */
  *collect(epoch?: number, most = Number.POSITIVE_INFINITY): Operation<void> {
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
    yield* this.#freeRipe(now, most);
    // After freeing, because a client that waits for this floor may act on it at once.
    yield* this.#publishFloor();
  }

  /** One attempt to advance the epoch beyond `epoch`, for a sweep that waits for that. */
  *advanceBeyond(epoch: number): Operation<void> {
    // `#advance` ignores this client's own announcement, and this client makes none here.
    invariant(!this.online, 'a client advances the epoch without announcing it');
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
   * Whether every block that any client had unlinked by `epoch` has been freed, or is held by no
   * client. That is so when every client has passed a quiescent point since, where it published its
   * floor, and no floor is that old. Reads epochs before floors, as clients write floors before
   * epochs.
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
   * Announces until the global epoch still equals the announcement afterwards. Otherwise a client
   * that paused between reading the epoch and announcing it would tag what it retires with an epoch
   * that readers left long ago.
   */
  *#comeOnline(epoch: number): Operation<void> {
    invariant(epoch >= this.#announced, 'the epoch is lower than announced');
    for (let now = epoch; now !== this.#announced; ) {
      yield* this.#announce(now);
      now = yield* this.readEpoch();
    }
  }

  *#announce(epoch: number): Operation<void> {
    // By the ordering contract, this client's next READ comes after this WRITE.
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
    // Last: if something above fails, the next quiescent point announces again.
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
    invariant(now > epoch, 'the epoch decreased');
    return now;
  }

  #laggards(epoch: number): number[] {
    const found: number[] = [];
    const { clientsMax } = this.#layout.parameters;
    for (let row = 0; row < clientsMax; row++) {
      const at = row * CLIENT_ENTRY_BYTES;
      // Regardless of the row's state: an announced epoch belongs to a client that has not left, or
      // to a dead one that no client has cleaned up after yet.
      const announced = readInteger(this.#table, at + EPOCH);
      if (announced !== 0 && announced !== epoch && row + 1 !== this.#membership.id) {
        found.push(row + 1);
      }
    }
    return found;
  }

  *#freeRipe(epoch: number, most: number): Operation<void> {
    for (let left = most; ; ) {
      const batch = this.#batch.clear();
      const freed = this.#limbo.drain(epoch, Math.min(left, FREED_AT_ONCE), (address, key) => {
        const units = key % 65536;
        const catalog = Math.floor(key / 65536);
        const chunk = this.#layout.chunkAt(regionOf(address), offsetOf(address));
        if (units !== EMPTIED_CHUNK)
          this.#waitingUnits -= units === SPAN_CHUNK ? CHUNK_UNITS : units;
        if (units === SPAN_CHUNK) this.#allocator.spans.free(catalog, chunk, batch);
        else if (units === EMPTIED_CHUNK) this.#allocator.recycle(chunk, batch);
        else this.#allocator.free(address, units, catalog);
      });
      invariant(this.#waitingUnits >= 0, 'more is freed than was retired');
      if (batch.length > 0) yield batch;
      yield* this.#allocator.flushFreed();
      left -= freed;
      this.#leftSome = left === 0;
      if (freed === 0 || left === 0) return;
    }
  }
}
