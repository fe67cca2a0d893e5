import { publish } from '../../diagnostics.ts';
import { type ErrorCode, hasCode, StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  EXCHANGE,
  IF_ABSENT,
  IF_PRESENT,
  type Index,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { CODEC_STATE } from '../../records/codec.ts';
import { blockBytesOf, HEADER_BYTES } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../calls/attachment.ts';
import { BlockRecord } from './block-record.ts';
import type { BoundedStore } from './bounded-store.ts';
import { ChunkDrain, type Fate } from './chunk-drain.ts';
import { Recount } from './recount.ts';
import type { Candidate, Sampling } from './sampling.ts';

/** Records that a client evicts together over a network, so that they share doorbells. */
const TOGETHER = 16;
/** Samples without a victim after which a write leaves the excess to the next one. */
const VAIN_MAX = 32;
/** Evictions that one write, or a client that leaves, tries at most. */
const TRIES_MAX = 4096;
/** Bytes that a write pays for a chunk owed, for each byte that it stores. */
const PAYMENT = 1.25;
/** What ends one try to evict: an index that needs memory to remove, or a damaged record. */
const LEFT: readonly ErrorCode[] = [
  'SW_POOL_FULL',
  'SW_RECORD_CORRUPT',
  'SW_POOL_CORRUPT',
  'SW_CONTENTION',
];

/** Which records not to evict, or beside which to evict one. */
interface Wish {
  readonly spared?: Request | undefined;
  readonly own?: Request | undefined;
}

/** What the calls of one handle do about the bound of their store. */
export class Evictor {
  readonly store: BoundedStore;
  readonly #attachment: Attachment;
  readonly #index: Index;
  readonly #recount: Recount;
  readonly #name: string;
  readonly #blocks: BlockRecord;
  readonly drain: ChunkDrain;
  /** Keys of records that a network client has added to tables, to evict beside all of them. */
  #added: Request[] = [];
  readonly #idleKeys: Request[] = [];

  constructor(store: BoundedStore, index: Index, attachment: Attachment, name: string) {
    this.store = store;
    this.#attachment = attachment;
    this.#index = index;
    this.#blocks = new BlockRecord(attachment.pool, index);
    const evictAt = (block: Address, units: number) => this.#evictAt(block, units);
    this.drain = new ChunkDrain(index, attachment, evictAt);
    if (store.evicts) attachment.pool.allocator.keepReserve(index.catalog);
    this.#recount = new Recount(store, index, attachment);
    this.#name = name;
  }

  /** Whether replacing a record may be refused, too: a longer one takes more bytes. */
  get countsBytes(): boolean {
    return this.store.bound.unit === 'bytes';
  }

  /** Before a write of a store that evicts nothing: looks at the others' lines if it is time to. */
  *lookIfStale(): Operation<void> {
    const { evicts, ledger } = this.store;
    if (!evicts && ledger.isStale) yield* inSection(this.#attachment, () => this.store.look());
  }

  /**
   * Whether the store, which evicts nothing, has no room for the record: `isThere` tells whether
   * the request has found one that it replaces.
   */
  isShut(request: Request, isThere: boolean): boolean {
    const { evicts, ledger } = this.store;
    if (evicts) return false;
    const growth = this.#growth(request, isThere);
    return growth > 0 && ledger.excess + growth > 0;
  }

  /** The same after a look at what other clients have deleted, before a write is refused. */
  *isStillShut(request: Request, isThere: boolean): Operation<boolean> {
    if (!this.isShut(request, isThere)) return false;
    yield* inSection(this.#attachment, () => this.store.look());
    if (this.isShut(request, isThere)) yield* this.#recount.ifDue();
    return this.isShut(request, isThere);
  }

  /** What a write adds, in the unit of the bound. */
  #growth(request: Request, isThere: boolean): number {
    if (!this.countsBytes) return isThere ? 0 : 1;
    return writtenBytes(request) - (isThere ? foundBytes(request) : 0);
  }

  /** Raised for what a store that is shut has no room for. */
  shut(): StepwellError {
    const { bound, ledger } = this.store;
    const { unit, limit } = bound;
    const name = unit === 'records' ? 'maxRecords' : 'maxBytes';
    const what = `the store holds ${ledger.sums[unit]} of its ${name} of ${limit}`;
    const remedy = `delete records, or make it anew with eviction: 'lru'`;
    return new StepwellError('SW_POOL_FULL', `${what}, and has no room for more; ${remedy}`);
  }

  /** Raises SW_INVALID_VALUE for a record that alone is larger than the bound. */
  refuseTooLarge(request: Request): void {
    const { limit } = this.store.bound;
    if (!this.countsBytes) return;
    const bytes = writtenBytes(request);
    if (bytes <= limit) return;
    const remedy = 'store a shorter value, or make the store anew with a larger maxBytes';
    const what = `the record takes ${bytes} bytes of a store with a maxBytes of ${limit}`;
    throw new StepwellError('SW_INVALID_VALUE', `${what}; ${remedy}`);
  }

  /** In the section of a write that was not refused: counts what it has changed. */
  *written(request: Request): Operation<void> {
    const { store } = this;
    const { ledger } = store;
    const added = writtenBytes(request);
    if (request.displaced) ledger.changed(0, added - foundBytes(request));
    else ledger.changed(1, added);
    if (ledger.isStale) yield* store.look();
    if (!request.displaced && ledger.excess > 0) yield* store.noteReturn(request);
    // Others need not evict what this client is about to evict.
    if (!store.isOver) yield* ledger.publish();
  }

  /** In the section of a removal: counts what it has changed; the caller publishes that. */
  removed(request: Request): void {
    if (request.displaced) this.store.ledger.changed(-1, -foundBytes(request));
  }

  /**
   * Behind the section of a write: evicts what is too much. What has been stored is stored: trouble
   * that this meets, such as a damaged record in a sample, is left to the calls that it concerns.
   * Only a caller's `chance` that is none concerns this one: SW_INVALID_ARGUMENT.
   */
  *settle(request?: Request): Operation<void> {
    const { isOver, isSuspect, ledger } = this.store;
    const isAhead = !this.drain.owes && !this.#attachment.pool.allocator.isTight;
    if (!isOver && !isSuspect && !ledger.hasNews && isAhead) return;
    try {
      yield* this.#evictExcess(request);
      if (request !== undefined) yield* this.#keepPace(request);
      if (ledger.hasNews) yield* this.publish();
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
    }
    this.#attachment.pool.clock.refuseFault();
  }

  /** In a full pool, evicts about as much as was written, so that the next write finds room. */
  *#keepPace(request: Request): Operation<void> {
    if (!this.store.evicts) return;
    if (this.drain.owes) yield* this.drain.pay(PAYMENT * writtenBytes(request));
    if (!this.#attachment.pool.allocator.isTight) return;
    if (this.#index.keepsInTable?.(request)) {
      if (!request.displaced) yield* this.#keepPaceBeside(request);
      return;
    }
    const { records } = this.#index;
    const some = Math.min(this.together, records.claimsMax(request));
    if (records.shortage(request) >= some) yield* this.evictSome(some, request);
  }

  /** As `#keepPace`, for a record that was added to a table: next to it. */
  *#keepPaceBeside(request: Request): Operation<void> {
    if (this.together === 1) {
      yield* this.makeRoomBeside(request);
      return;
    }
    const key = this.#idleKeys.pop() ?? this.#index.newRequest();
    key.adoptKeyAt(request.outgoing, HEADER_BYTES, request.keyBytes, this.#index.hashSeed);
    this.#added.push(key);
    if (this.#added.length < this.together) return;
    const added = this.#added;
    this.#added = [];
    yield* this.#evictTogether(added.map((own) => ({ own })));
    this.#idleKeys.push(...added);
  }

  /** How many records this client evicts at once. */
  get together(): number {
    return Math.min(TOGETHER, this.#attachment.width);
  }

  /**
   * Evicts `count` records at the same time, but not `spared`'s; for the bound no more than are too
   * many. Returns how many it evicted. A client whose verbs finish at once gains nothing by that,
   * and evicts one after the other.
   */
  *evictSome(count: number, spared?: Request, isForBound = false): Operation<number> {
    if (count > 1 && this.together > 1) {
      const wishes = Array.from({ length: count }, () => ({ spared }));
      return yield* this.#evictTogether(wishes, isForBound);
    }
    let evicted = 0;
    for (let i = 0; i < count; i++) if (yield* this.evictOne(spared)) evicted++;
    return evicted;
  }

  *#evictExcess(request: Request | undefined): Operation<void> {
    const { store } = this;
    let tries = 0;
    let vain = 0;
    // More than clients can have added in passing: the counts are wrong, or many clients at once.
    const isFarOver = store.ledger.excess > store.bound.limit;
    if (isFarOver || store.isSuspect) yield* this.#recount.ifDue();
    if (store.isInVain) return;
    // Unless it is the last one, a write leaves a small excess to the next, to evict several.
    if (request !== undefined && this.#gathers) return;
    while (store.isOver && vain < VAIN_MAX && tries < TRIES_MAX) {
      // Other clients may be about to evict the excess that is not of this write.
      if (tries > 0) yield* inSection(this.#attachment, () => store.look());
      if (!store.isOver) break;
      const some = Math.min(this.together, store.recordsOver);
      // Evictions in flight together may have chosen the same record.
      if ((yield* this.evictSome(some, request, true)) === 0) vain += some;
      tries += some;
    }
    if (!store.isOver) return;
    yield* this.#recount.ifDue();
    if (store.isOver) store.noteVain();
  }

  /** Whether the excess is still too small to evict several records together. */
  get #gathers(): boolean {
    const { ledger, recordsOver } = this.store;
    const most = Math.floor(ledger.slack / ledger.perRecord);
    return recordsOver < Math.min(this.together, most);
  }

  /** Evicts one record, not that of `spared`; false when it found none, or could not. */
  evictOne(spared?: Request): Operation<boolean> {
    return this.#tried(
      () => inSection(this.#attachment, () => this.#evict(spared)),
      () => false,
    );
  }

  *#evict(spared: Request | undefined): Operation<boolean> {
    const { store } = this;
    const sampling = store.newSampling();
    // Within the section: one that waits for it when its store is closed evicts nothing.
    store.underWay++;
    try {
      const victim = yield* store.findVictim(sampling, spared);
      return victim !== undefined && (yield* this.#removeAndTell(victim));
    } finally {
      store.underWay--;
      store.giveBack(sampling);
    }
  }

  /**
   * Makes room where the index would keep a record in a table: evicts one of those there, unless
   * there is room. False when it could not, or the record has a block of its own.
   */
  *makeRoomBeside(own: Request): Operation<boolean> {
    if (!this.#index.keepsInTable?.(own)) return false;
    return yield* this.#tried(
      () => inSection(this.#attachment, () => this.#evictBeside(own)),
      () => false,
    );
  }

  *#evictBeside(own: Request): Operation<boolean> {
    const { store } = this;
    const sampling = store.newSampling();
    store.underWay++;
    try {
      const victim = yield* store.findVictimBeside(sampling, own);
      return victim === undefined ? sampling.hasRoom : yield* this.#removeAndTell(victim);
    } finally {
      store.underWay--;
      store.giveBack(sampling);
    }
  }

  /**
   * Evicts a record for each wish: samples for all of them, then removes all victims. In each of
   * the two steps they share doorbells. Returns how many it evicted.
   */
  #evictTogether(wishes: readonly Wish[], isForBound = false): Operation<number> {
    return inSection(this.#attachment, () => {
      // While this one waited to enter, others may have evicted what was too much.
      const most = isForBound ? Math.max(0, this.store.recordsOver) : wishes.length;
      return this.#evictAll(wishes.slice(0, most));
    });
  }

  *#evictAll(wishes: readonly Wish[]): Operation<number> {
    const { store } = this;
    const all = wishes.map((wish) => ({ ...wish, sampling: store.newSampling() }));
    const victims: Candidate[] = [];
    const evicted: Candidate[] = [];
    store.underWay += all.length;
    try {
      yield* this.#attachment.together(all, (one) => this.#choose(one, victims));
      yield* this.#attachment.together(victims, (victim) => this.#removeTo(victim, evicted));
      yield* store.ledger.publish();
      return evicted.length;
    } finally {
      store.underWay -= all.length;
      for (const { sampling } of all) store.giveBack(sampling);
    }
  }

  *#choose(
    { sampling, own, spared }: Wish & { sampling: Sampling },
    victims: Candidate[],
  ): Operation<void> {
    const { store } = this;
    const find = () =>
      own === undefined
        ? store.findVictim(sampling, spared)
        : store.findVictimBeside(sampling, own);
    const victim = yield* this.#tried(find, () => undefined);
    if (victim !== undefined && !victims.some((other) => other.isSame(victim)))
      victims.push(victim);
  }

  *#removeTo(victim: Candidate, evicted: Candidate[]): Operation<void> {
    const remove = () => this.#remove(victim);
    if (yield* this.#tried(remove, () => false)) evicted.push(victim);
  }

  /** Whether this client has removed it: it was neither replaced nor used since the sample. */
  *#remove(victim: Candidate): Operation<boolean> {
    const { store } = this;
    if (!(yield* victim.remove())) return false;
    store.ledger.evictedOne(foundBytes(victim.request));
    yield* store.noteEviction(victim);
    publish('eviction', () => ({ store: this.#name, expired: victim.isExpired }));
    return true;
  }

  /** The same, and tells the other clients at once. */
  *#removeAndTell(victim: Candidate): Operation<boolean> {
    const isGone = yield* this.#remove(victim);
    if (isGone) yield* this.store.ledger.publish();
    return isGone;
  }

  /** Evicts the record that has the block; false when there is none, or it must stay. */
  *#evictAt(block: Address, units: number): Operation<Fate> {
    const left = (error: unknown) => (hasCode(error, 'SW_POOL_FULL') ? 'full' : 'stays');
    const evict = () => inSection(this.#attachment, () => this.#removeAt(block, units));
    return yield* this.#tried<Fate>(evict, left);
  }

  /** Runs an eviction; what ends this try alone, such as a damaged record, becomes a result. */
  *#tried<T>(evict: () => Operation<T>, left: (error: unknown) => T): Operation<T> {
    try {
      return yield* evict();
    } catch (error) {
      if (LEFT.some((code) => hasCode(error, code))) return left(error);
      throw error;
    }
  }

  *#removeAt(block: Address, units: number): Operation<Fate> {
    const { store } = this;
    const sampling = store.newSampling();
    const request = sampling.met;
    store.underWay++;
    try {
      if (!(yield* this.#blocks.find(request, block, units))) return 'stays';
      const isExpired = this.#index.records.isExpired(request);
      if (request.foundCodec === CODEC_STATE && !isExpired) return 'stays';
      request.displaced = false;
      yield* this.#index.remove(request, request.foundVersion);
      if (!request.displaced) return 'stays';
      store.ledger.evictedOne(foundBytes(request));
      if (!isExpired) store.ledger.countEviction();
      yield* store.ledger.publish();
      publish('eviction', () => ({ store: this.#name, expired: isExpired }));
      return 'evicted';
    } finally {
      store.underWay--;
      store.giveBack(sampling);
    }
  }

  /** Tells other clients at once what this one has counted. */
  publish(): Operation<void> {
    return inSection(this.#attachment, () => this.store.ledger.publish());
  }

  /** Counts all records, when what the clients have counted is known to be wrong, or may be. */
  recount(): Operation<void> {
    return this.#recount.run();
  }
}

/** The condition by which an index tells of the old record. */
export function countable(condition: Condition): Condition {
  return condition === ALWAYS ? EXCHANGE : condition;
}

/** The condition under which no key is added. */
export function withoutNewKeys(condition: Condition): Condition {
  return condition === EXCHANGE || condition === ALWAYS ? IF_PRESENT : condition;
}

export function addsKeys(condition: Condition): boolean {
  return condition === ALWAYS || condition === EXCHANGE || condition === IF_ABSENT;
}

function writtenBytes({ keyBytes, valueBytes }: Request): number {
  return blockBytesOf(keyBytes, valueBytes);
}

function foundBytes({ keyBytes, foundValueBytes }: Request): number {
  return blockBytesOf(keyBytes, foundValueBytes);
}
