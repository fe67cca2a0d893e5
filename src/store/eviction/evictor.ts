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
import { type Attachment, inSection } from '../attachment.ts';
import type { BoundedStore, Evicted, VictimPlace } from './bounded-store.ts';
import { BlockRecord, ChunkDrain, type Fate } from './chunk-drain.ts';
import { OldTables } from './old-tables.ts';
import { EvictionPace } from './pace.ts';
import { Recount } from './recount.ts';
import type { Candidate, Sampling } from './sampling.ts';

/** Records that a client evicts together over a network, so that they share doorbells. */
const TOGETHER = 16;
/** At most this many ahead of need: more would leave a small pool emptier. */
const AHEAD_MAX = 16;
/** How often one write evicts so many to catch up with what earlier writes have left. */
const GROUPS_MAX = 2;
/** Samples without a victim after which a write leaves the excess to the next one. */
const VAIN_MAX = 32;
/** Most evictions that one write, or a client that closes the store, tries. */
const TRIES_MAX = 4096;
/** Bytes that a write evicts towards an owed chunk, for each byte that it stores. */
const PAYMENT = 1.25;
/** Errors that end only one eviction: its index lacks memory to remove, or a record is damaged. */
const SKIPPED: readonly ErrorCode[] = [
  'SW_POOL_FULL',
  'SW_RECORD_CORRUPT',
  'SW_POOL_CORRUPT',
  'SW_CONTENTION',
];

/** Keeps a store within its bound, for the calls of one handle. */
export class Evictor {
  readonly store: BoundedStore;
  readonly #attachment: Attachment;
  readonly #index: Index;
  readonly #recount: Recount;
  readonly #name: string;
  readonly #blocks: BlockRecord;
  readonly drain: ChunkDrain;
  /** Only if the index frees removed records late. */
  readonly #pace: EvictionPace | undefined;
  readonly oldTables: OldTables;
  /** Keys of records that were written to tables, beside which this client is about to evict. */
  readonly #written: Request[] = [];
  readonly #idleKeys: Request[] = [];
  /** Evictions that writes have left to the next ones, where no pace counts them. */
  #owed = 0;

  constructor(store: BoundedStore, index: Index, attachment: Attachment, name: string) {
    this.store = store;
    this.#attachment = attachment;
    this.#index = index;
    this.#blocks = new BlockRecord(attachment.pool, index);
    const evictAt = (block: Address, units: number) => this.#evictAt(block, units);
    this.drain = new ChunkDrain(index, attachment, evictAt);
    this.oldTables = new OldTables(attachment, this);
    if (store.evicts) attachment.pool.allocator.keepReserve(index.records.catalog);
    this.#recount = new Recount(store, index, attachment);
    if (index.manifest.retiresLate) this.#pace = new EvictionPace(attachment, index);
    this.#name = name;
  }

  /** Whether the bound counts bytes: then a longer replacement may be refused, too. */
  get countsBytes(): boolean {
    return this.store.bound.unit === 'bytes';
  }

  /** Before a write to a store without eviction: reads the ledger's other lines when due. */
  *lookIfStale(): Operation<void> {
    const { evicts, ledger } = this.store;
    if (!evicts && ledger.isStale) yield* inSection(this.#attachment, () => this.store.look());
  }

  /**
   * Whether a store without eviction has no room for the record. `isThere` tells whether the
   * request found a record that it replaces.
   */
  isShut(request: Request, isThere: boolean): boolean {
    const { evicts, ledger } = this.store;
    if (evicts) return false;
    const growth = this.#growth(request, isThere);
    return growth > 0 && ledger.excess + growth > 0;
  }

  /** The same after another look at the ledger, because other clients may have deleted records. */
  *isStillShut(request: Request, isThere: boolean): Operation<boolean> {
    if (!this.isShut(request, isThere)) return false;
    yield* inSection(this.#attachment, () => this.store.look());
    if (this.isShut(request, isThere)) yield* this.#recount.ifDue();
    return this.isShut(request, isThere);
  }

  /** How much a write adds, in the unit of the bound. */
  #growth(request: Request, isThere: boolean): number {
    if (!this.countsBytes) return isThere ? 0 : 1;
    return writtenBytes(request) - (isThere ? foundBytes(request) : 0);
  }

  /** The error for a record that a store without eviction has no room for. */
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
    // Not yet if over the bound: others need not evict what this client is about to evict.
    if (!store.isOver) yield* ledger.publish();
  }

  /** In the section of a removal: counts what it has changed. The caller publishes the count. */
  removed(request: Request): void {
    if (!request.displaced) return;
    this.#pace?.removed();
    this.store.ledger.changed(-1, -foundBytes(request));
  }

  /**
   * After the section of a write: evicts the excess. The write is done, so an error here, such as a
   * damaged record in a sample, is left to the calls that it concerns. One error concerns this
   * call: SW_INVALID_ARGUMENT, when the caller's own `chance` has returned a bad value.
   */
  *settle(request?: Request): Operation<void> {
    const { isOver, isSuspect, ledger } = this.store;
    const owes = this.drain.owes || this.oldTables.isPaid;
    const isAhead = !owes && !this.#attachment.pool.allocator.isTight;
    if (!isOver && !isSuspect && !ledger.isUnpublished && isAhead) return;
    try {
      yield* this.#evictExcess(request);
      if (request !== undefined) yield* this.#keepPace(request);
      if (ledger.isUnpublished) yield* this.publish();
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
    }
    this.#attachment.pool.clock.refuseFault();
  }

  /** In a full pool, evicts about as much as was written, so that the next write finds room. */
  *#keepPace(request: Request): Operation<void> {
    if (!this.store.evicts) return;
    if (this.drain.owes) yield* this.drain.pay(PAYMENT * writtenBytes(request));
    if (!request.displaced && (yield* this.oldTables.pay(request))) return;
    if (!this.#attachment.pool.allocator.isTight) return;
    if (!request.displaced && (yield* this.evictBeside(request))) return;
    const some = Math.min(AHEAD_MAX, this.#together);
    const lacked = yield* this.#lackedAfter(request);
    // A write that has merged or split took long enough: the next ones evict for it.
    if (lacked < some || request.hasMerged) {
      this.#owed = lacked < some ? 0 : this.#owed + some;
      return;
    }
    const due = this.#pace === undefined ? this.#owed + some : lacked;
    const groups = Math.min(GROUPS_MAX, Math.floor(due / some));
    this.#owed = Math.max(0, this.#owed + some - groups * some);
    this.#pace?.settled(groups * some);
    for (let group = 0; group < groups; group++) yield* this.#evictSome(some, request);
  }

  /** How many records to evict for the writes to come. */
  *#lackedAfter(request: Request): Operation<number> {
    if (this.#pace === undefined) {
      return this.#index.records.shortage(request) - this.store.underWay;
    }
    if (!this.drain.owes && !this.drain.hasSlack) return yield* this.#pace.written(request);
    this.#pace.forgive();
    return 0;
  }

  /** How many records this client evicts at once. */
  get #together(): number {
    return Math.min(TOGETHER, this.#attachment.width);
  }

  /** Evicts `count` records, but not `spared`'s; returns how many it evicted. */
  *#evictSome(count: number, spared: Request | undefined, isExcess = false): Operation<number> {
    if (count <= 1) return (yield* this.evictOne(spared)) ? 1 : 0;
    return yield* inSection(this.#attachment, () => {
      // Other operations may have evicted the excess while this one waited to enter.
      const left = isExcess ? Math.max(0, this.store.recordsOver) : count;
      const owns = Array.from({ length: Math.min(count, left) }, () => spared);
      return this.#evictTogether(owns, (own, sampling) => this.store.findVictim(sampling, own));
    });
  }

  /**
   * Samples for all victims, then removes them. In each of the two steps the evictions share
   * doorbells, which they would not if one removed its victim while another still sampled.
   */
  *#evictTogether<T extends Request | undefined>(
    owns: readonly T[],
    find: (own: T, sampling: Sampling) => Operation<Candidate | undefined>,
  ): Operation<number> {
    const { store } = this;
    const count = owns.length;
    const samplings = owns.map((own) => ({ own, sampling: store.newSampling() }));
    const victims: Candidate[] = [];
    let evicted = 0;
    const choose = function* ({ own, sampling }: (typeof samplings)[number]): Operation<void> {
      const victim = yield* find(own, sampling);
      if (victim !== undefined && !victims.some((other) => other.isOf(victim.request)))
        victims.push(victim);
    };
    const remove = function* (this: Evictor, victim: Candidate): Operation<void> {
      if (yield* this.#remove(victim)) evicted++;
    }.bind(this);
    store.underWay += count;
    try {
      yield* this.#attachment.together(samplings, skipFailed(choose));
      yield* this.#attachment.together(victims, skipFailed(remove));
      yield* store.ledger.publish();
      return evicted;
    } finally {
      store.underWay -= count;
      for (const { sampling } of samplings) store.giveBack(sampling);
    }
  }

  *#evictExcess(request: Request | undefined): Operation<void> {
    const { store } = this;
    let tries = 0;
    let vain = 0;
    // Concurrent writes hardly explain so much: the counts are wrong, or clients very many.
    const isFarOver = store.ledger.excess > store.bound.limit;
    if (isFarOver || store.isSuspect) yield* this.#recount.ifDue();
    if (store.isInVain) return;
    while (store.isOver && vain < VAIN_MAX && tries < TRIES_MAX) {
      // A write, unlike `close`, leaves a small excess to the next, to evict several together: also
      // what other writes in flight have added since it began.
      if (request !== undefined && this.#gathers) return;
      // Other clients may be about to evict the part of the excess that they have added.
      if (tries > 0) yield* inSection(this.#attachment, () => store.look());
      if (!store.isOver) break;
      const some = Math.min(this.#together, store.recordsOver);
      // Evictions in flight may have chosen the same record.
      if ((yield* this.#evictSome(some, request, true)) === 0) vain += some;
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
    return recordsOver < Math.min(this.#together, most);
  }

  /** Evicts one record, not that of `spared`; false when it found none, or could not. */
  evictOne(spared?: Request): Operation<boolean> {
    return this.#tryToEvict('anywhere', spared);
  }

  /**
   * After a write: evicts one of the records beside which the index keeps the new one, or an old
   * record if those are young. False if the new record has a block of its own: then any victim will
   * do.
   */
  *evictBeside(own: Request): Operation<boolean> {
    if (!own.isInTable) return false;
    if (this.#together === 1) return yield* this.#tryToEvict(this.#placeBeside, own);
    // Over a network, together with what the next writes evict.
    this.#written.push(this.#keyOf(own));
    if (this.#written.length < AHEAD_MAX) return true;
    const group = this.#written.splice(0);
    yield* inSection(this.#attachment, () => this.#evictBesideAll(group));
    for (const one of group) if (this.#idleKeys.length < AHEAD_MAX) this.#idleKeys.push(one);
    return true;
  }

  *#evictBesideAll(group: readonly Request[]): Operation<void> {
    const { store } = this;
    const place = this.#placeBeside;
    yield* this.#evictTogether(group, (own, sampling) => store.findVictimFor(place, own, sampling));
  }

  /** A copy of the key, for when the request is another operation's. */
  #keyOf({ outgoing, keyBytes }: Request): Request {
    const copy = this.#idleKeys.pop() ?? this.#index.newRequest();
    copy.adoptKeyAt(outgoing, HEADER_BYTES, keyBytes, this.#index.records.seed);
    return copy;
  }

  get #placeBeside(): VictimPlace {
    return this.mayEmptyTable ? 'beside' : 'in table';
  }

  /** For an index that lacks memory for its tables: makes room in the new record's own table. */
  evictInTable(own: Request): Operation<boolean> {
    return this.#tryToEvict('in table', own);
  }

  /**
   * Evicts records in a table of old ones, so that the table comes free (`areYoungBeside`); returns
   * how many. Over a network all that one change of the table can remove. On one machine a single
   * one, because the write waits.
   */
  *evictOld(own: Request): Operation<number> {
    if (this.#attachment.width === 1) return (yield* this.#tryToEvict('old', own)) ? 1 : 0;
    try {
      return yield* inSection(this.#attachment, () => this.#evictOldTogether(own));
    } catch (error) {
      if (isSkipped(error)) return 0;
      throw error;
    }
  }

  *#evictOldTogether(own: Request): Operation<number> {
    const { store } = this;
    const sampling = store.newSampling();
    // Others need not evict what this is about to.
    store.underWay += TOGETHER;
    try {
      let gone = yield* store.removeOld(sampling, own);
      if (gone.length === 0) {
        const victim = yield* store.findOldTable(sampling, own);
        if (victim === undefined) return 0;
        gone = yield* store.removeOld(sampling, own);
        if (gone.length === 0) return (yield* this.#remove(victim)) ? 1 : 0;
      }
      for (const one of gone) yield* this.#evicted(one);
      yield* store.ledger.publish();
      return gone.length;
    } finally {
      store.underWay -= TOGETHER;
      store.giveBack(sampling);
    }
  }

  /** Whether the records beside which the index keeps this one, if any, are younger than others. */
  *areYoungBeside(own: Request): Operation<boolean | undefined> {
    const sampling = this.store.newSampling();
    try {
      return yield* inSection(this.#attachment, () => this.store.areYoungBeside(own, sampling));
    } finally {
      this.store.giveBack(sampling);
    }
  }

  /**
   * Whether a table comes free when its records are evicted: the index merges tables, and no client
   * holds back reuse.
   */
  get mayEmptyTable(): boolean {
    const { lagging } = this.#attachment.pool.reclamation;
    const merges = this.canEvictInTable && this.#index.compact !== undefined;
    return merges && !this.oldTables.isResting && lagging.length === 0;
  }

  /** Whether an eviction can make room in the very table that has none. */
  get canEvictInTable(): boolean {
    return this.#index.manifest.evictsInTable === true;
  }

  /** Without callbacks, because each write to a full store would allocate them. */
  *#tryToEvict(where: Where, own: Request | undefined): Operation<boolean> {
    try {
      yield* this.#attachment.enter();
      try {
        return yield* this.#evict(where, own);
      } finally {
        this.#attachment.exit();
      }
    } catch (error) {
      if (isSkipped(error)) return false;
      throw error;
    }
  }

  /** Evicts the record in the block, if there is one and it may go. */
  *#evictAt(block: Address, units: number): Operation<Fate> {
    try {
      return yield* inSection(this.#attachment, () => this.#removeAt(block, units));
    } catch (error) {
      if (isSkipped(error)) return hasCode(error, 'SW_POOL_FULL') ? 'full' : 'stays';
      throw error;
    }
  }

  *#evict(where: Where, own: Request | undefined): Operation<boolean> {
    const { store } = this;
    const sampling = store.newSampling();
    // Inside the section: an operation that waits there while its store closes evicts nothing.
    store.underWay++;
    try {
      const victim =
        own === undefined || where === 'anywhere'
          ? yield* store.findVictim(sampling, own)
          : yield* store.findVictimFor(where, own, sampling);
      if (victim === undefined || !(yield* this.#remove(victim))) return false;
      yield* store.ledger.publish();
      return true;
    } finally {
      store.underWay--;
      store.giveBack(sampling);
    }
  }

  /** Removes the victim. False if it was replaced or used since the sample. */
  *#remove(victim: Candidate): Operation<boolean> {
    if (!(yield* victim.remove())) return false;
    const { request, isExpired, experts } = victim;
    yield* this.#evicted({ request, bytes: foundBytes(request), isExpired, experts });
    return true;
  }

  *#evicted(one: Evicted): Operation<void> {
    yield* this.store.noteEviction(one);
    publish('eviction', () => ({ store: this.#name, expired: one.isExpired }));
  }

  *#removeAt(block: Address, units: number): Operation<Fate> {
    const { store } = this;
    const sampling = store.newSampling();
    const request = sampling.met;
    store.underWay++;
    try {
      if (!(yield* this.#blocks.find(request, block, units))) return 'stays';
      const isExpired = this.#index.records.isExpired(request);
      if (request.found.codec === CODEC_STATE && !isExpired) return 'stays';
      request.displaced = false;
      yield* this.#index.remove(request, request.found.version);
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

  /** Publishes at once what this client has counted. */
  publish(): Operation<void> {
    return inSection(this.#attachment, () => this.store.ledger.publish());
  }

  /** Counts all records, because the clients' counts are wrong, or may be. */
  recount(): Operation<void> {
    return this.#recount.run();
  }
}

type Where = 'anywhere' | VictimPlace;

/** Runs one of several evictions, so that an error of `SKIPPED` does not end the others. */
function skipFailed<T>(act: (item: T) => Operation<void>): (item: T) => Operation<void> {
  return function* (item) {
    try {
      yield* act(item);
    } catch (error) {
      if (!isSkipped(error)) throw error;
    }
  };
}

function isSkipped(error: unknown): boolean {
  return SKIPPED.some((code) => hasCode(error, code));
}

/** The condition that makes an index report the old record. */
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

function writtenBytes({ keyBytes, record }: Request): number {
  return blockBytesOf(keyBytes, record.valueBytes);
}

function foundBytes({ keyBytes, found }: Request): number {
  return blockBytesOf(keyBytes, found.valueBytes);
}
