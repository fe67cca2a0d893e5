import { StepwellError } from '../../errors.ts';
import { evictsInTable, type Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { sampleOf } from '../../indexes/traversal/sample.ts';
import { type Bound, type BoundSettings, EVICTIONS, historyOf } from '../../pool/bound.ts';
import type { Pool } from '../../pool/pool.ts';
import { blockBytesOf, HEADER_BYTES } from '../../records/layout.ts';
import { TICKS_PER_MS } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { BoundStats, OpenOptions } from '../api.ts';
import { invalid, shown } from '../arguments.ts';
import { bytesOf } from '../sizes.ts';
import { type Expert, Experts, type Hashed, History, LFU, LRU } from './experts.ts';
import { Ledger } from './ledger.ts';
import { type Candidate, isSameKey, isState, Sampling } from './sampling.ts';

/** Records that are compared for one eviction. With 16, LFU does as well as if it knew all. */
const SAMPLE = 16;
/** Most places of the index that one sample reads: many where records stand far apart. */
const PLACES_MAX = 256;
/** After samples without a victim, at most this many records come or go before further samples. */
const IN_VAIN_RECORDS = 64;
/** Or this part of the limit, if that is less. */
const IN_VAIN_PART = 16;
/** A record is young if victims of the whole store have rested this many times as long. */
const YOUNG_FACTOR = 4;
/** Most samplings to keep for reuse. */
const IDLE_MAX = 16;

/** A record that was evicted. */
export interface Evicted {
  readonly request: Hashed;
  /** Bytes that the bound counts for it. */
  readonly bytes: number;
  readonly isExpired: boolean;
  /** Those that chose it. */
  readonly experts: number;
}

/** Where to look for a victim that makes room for a certain new record: see `Evictor`. */
export type VictimPlace = 'beside' | 'in table' | 'old';

/**
 * One client's view of a bounded store, shared by its handles: how much the store holds, and which
 * records to evict. The protocol: docs/protocols/eviction.md.
 */
export class BoundedStore {
  readonly bound: Bound;
  readonly ledger: Ledger;
  readonly experts = new Experts();
  readonly #pool: Pool;
  readonly #index: Index;
  readonly #history: History | undefined;
  /** The other clients' regrets that this client has learnt from. */
  #learnt = { lru: 0, lfu: 0 };
  readonly #idle: Sampling[] = [];
  #places = 1;
  /** When the last victim of a sample of the whole store was accessed; see TICKS_PER_MS. */
  #victimAccess = Number.NEGATIVE_INFINITY;
  /** A key of the table that is being emptied. */
  #oldTable: Request | undefined;
  /** Whether that table may have more old records than were removed. */
  #hasOld = false;
  /** Evictions under way, of all handles. */
  underWay = 0;
  /** The excess when samples last found no victim; NaN after an eviction. */
  #leftOver = Number.NaN;
  /** Until when the last recount suffices, by the pool's timer. */
  countedUntil = 0;
  /** The ledger's count of dead clients at the last recount that succeeded. */
  deathsCounted = 0;
  /** The count at which a recount was last begun. */
  deathsTried = 0;

  private constructor(pool: Pool, index: Index, ledger: Ledger) {
    const { bound } = ledger;
    this.#pool = pool;
    this.#index = index;
    this.bound = bound;
    this.ledger = ledger;
    const start = historyOf(pool.membership.clientsMax, bound);
    this.#history = start === undefined ? undefined : new History(pool, start, bound.historyBits);
  }

  /** Opens the bound of a store that this client has just opened; undefined when it has none. */
  static *open(pool: Pool, index: Index): Operation<BoundedStore | undefined> {
    const bound = yield* pool.catalog.boundOf(index.records.catalog);
    if (bound === undefined) return undefined;
    const store = new BoundedStore(
      pool,
      index,
      yield* Ledger.open(pool, bound, index.records.catalog),
    );
    store.#learn();
    return store;
  }

  /** Current figures for statistics. A handle that only reads publishes nothing. */
  *stats(readOnly: boolean): Operation<BoundStats> {
    if (!readOnly) yield* this.ledger.publish();
    yield* this.ledger.refresh();
    this.#learn();
    const { unit, limit, eviction } = this.bound;
    const { records, bytes, evicted: evictions, hits, misses } = this.ledger.sums;
    const lruWeight = eviction === 'adaptive' ? { lruWeight: this.experts.lruWeight } : {};
    const most = unit === 'records' ? { maxRecords: limit } : { maxBytes: limit };
    return { ...most, eviction, records, bytes, evictions, hits, misses, ...lruWeight };
  }

  get evicts(): boolean {
    return this.bound.eviction !== 'none';
  }

  /** Whether a record must be evicted, in addition to evictions under way. */
  get isOver(): boolean {
    return this.evicts && this.recordsOver > 0;
  }

  /** About how many records to evict, in addition to evictions under way. */
  get recordsOver(): number {
    const { excess, perRecord } = this.ledger;
    return Math.ceil(excess / perRecord) - this.underWay;
  }

  /**
   * Whether the counts may be too low, which nothing else would show: a client has died before it
   * counted what it added, or the lines add up to less than 0.
   */
  get isSuspect(): boolean {
    return this.ledger.isNegative || this.ledger.deaths !== this.deathsCounted;
  }

  /** Samples found no victim: most records are helpers' states, which stay. */
  noteVain(): void {
    this.#leftOver = this.ledger.excess;
  }

  /** Whether further samples would find no victim either: hardly anything has changed since. */
  get isInVain(): boolean {
    const { perRecord, excess } = this.ledger;
    const most = Math.min(IN_VAIN_RECORDS * perRecord, this.bound.limit / IN_VAIN_PART);
    return Math.abs(excess - this.#leftOver) < Math.max(perRecord, most);
  }

  /** Reads what the other clients have done. */
  *look(): Operation<void> {
    yield* this.ledger.publish();
    yield* this.ledger.refresh();
    this.#learn();
  }

  #learn(): void {
    const { lru, lfu } = this.ledger.regrets;
    this.experts.learn(Math.max(0, lru - this.#learnt.lru), Math.max(0, lfu - this.#learnt.lfu));
    this.#learnt = { lru, lfu };
  }

  /** A key was inserted: if it was evicted a short time ago, an expert was wrong. */
  *noteReturn(request: Request): Operation<void> {
    const history = this.#history;
    if (history === undefined) return;
    const found = yield* history.recall(request, this.ledger.evicted);
    if (found === undefined) return;
    const { lru, lfu } = this.experts.regret(found.experts, found.age, history.length);
    this.ledger.regret(lru, lfu);
    this.#learnt = { lru: this.#learnt.lru + lru, lfu: this.#learnt.lfu + lfu };
  }

  /** Notes that a record was evicted, and which experts chose it. */
  *noteEviction({ request, bytes, isExpired, experts }: Evicted): Operation<void> {
    this.ledger.evictedOne(bytes);
    this.#leftOver = Number.NaN;
    if (!isExpired) this.ledger.countEviction();
    if (isExpired || this.#history === undefined) return;
    yield* this.#history.note(request, experts, this.ledger.evicted);
  }

  /** Memory for one eviction; give it back by `giveBack`. */
  newSampling(): Sampling {
    return this.#idle.pop() ?? new Sampling(this.#index, this.bound.eviction !== 'lru');
  }

  giveBack(sampling: Sampling): void {
    if (this.#idle.length < IDLE_MAX) this.#idle.push(sampling);
  }

  /**
   * Samples the store once and returns a victim, but not the record of `spared`; undefined when it
   * found none. An expired record goes first.
   */
  *findVictim(sampling: Sampling, spared: Request | undefined): Operation<Candidate | undefined> {
    const { chance } = this.#pool.clock;
    do {
      sampling.begin(this.#places, chance, spared);
      yield* sampleOf(this.#index, sampling.met, sampling.places, SAMPLE, sampling.visit);
    } while (this.#wasTooSmall(sampling.count));
    const victim = sampling.victimOf(this.#choose);
    if (victim !== undefined) this.#victimAccess = victim.access.ticks;
    return victim;
  }

  /**
   * As `findVictim`, among the records beside which a new one goes (see `Index.sample`), or an
   * `old` record. Where keys ascend, the records `beside` are young: then it chooses an old record
   * instead, unless it has to be `in table`.
   */
  *findVictimFor(
    place: VictimPlace,
    own: Request,
    sampling: Sampling,
  ): Operation<Candidate | undefined> {
    if (place === 'old') return yield* this.#findOld(sampling, own);
    const neighbour = yield* this.#findNeighbour(sampling, own);
    const isLast = neighbour === undefined || place === 'in table';
    return isLast || !this.#isYoung(neighbour) ? neighbour : yield* this.#findOld(sampling, own);
  }

  /**
   * Whether the store has records much older than all those beside which the new one goes;
   * undefined if it found none beside it.
   */
  *areYoungBeside(own: Request, sampling: Sampling): Operation<boolean | undefined> {
    const neighbour = yield* this.#findNeighbour(sampling, own);
    return neighbour && this.#isYoung(neighbour);
  }

  *#findNeighbour(sampling: Sampling, own: Request): Operation<Candidate | undefined> {
    sampling.beginAlone(this.#pool.clock.chance, own);
    yield* this.#index.sample?.(sampling.met, own, SAMPLE, sampling.visit) ?? [];
    return sampling.victimOf(this.#choose);
  }

  /**
   * Chooses all old records of a table, one per call, so that its memory comes free when it is
   * merged. Then continues with the table that holds the next victim of the whole store.
   */
  *#findOld(sampling: Sampling, spared: Request): Operation<Candidate | undefined> {
    if (this.#oldTable !== undefined) {
      sampling.beginAlone(this.#pool.clock.chance, spared);
      const all = Number.POSITIVE_INFINITY;
      yield* this.#index.sample?.(sampling.met, this.#oldTable, all, sampling.visit) ?? [];
      const victim = sampling.victimOf(this.#choose);
      if (victim !== undefined && !this.#isYoung(victim)) return victim;
    }
    return yield* this.findOldTable(sampling, spared);
  }

  /** Samples the store once for a victim, whose table is to be emptied from now on. */
  *findOldTable(sampling: Sampling, spared: Request): Operation<Candidate | undefined> {
    const victim = yield* this.findVictim(sampling, spared);
    if (victim === undefined) return undefined;
    this.#oldTable ??= this.#index.newRequest();
    const { outgoing, keyBytes } = victim.request;
    this.#oldTable.adoptKeyAt(outgoing, HEADER_BYTES, keyBytes, this.#index.records.seed);
    this.#hasOld = true;
    return victim;
  }

  /** Removes old records of the table that is being emptied, as many as one change can. */
  *removeOld({ met }: Sampling, spared: Request): Operation<readonly Evicted[]> {
    const gone: Evicted[] = [];
    const index = this.#index;
    if (this.#oldTable === undefined || !this.#hasOld || !evictsInTable(index)) return gone;
    const access = { ticks: 0, uses: 0 };
    const chooses = (one: Request, keyBytes: number) => {
      if (isSameKey(one, spared)) return false;
      const isExpired = index.records.isExpired(one);
      one.readAccess(access);
      if (!isExpired && (isState(one) || this.#isYoung({ access, isExpired }))) return false;
      const { h1, h4 } = one.hash;
      const bytes = blockBytesOf(keyBytes, one.found.valueBytes);
      // The choice goes by the last access.
      gone.push({ request: { hash: { h1, h4 } }, bytes, isExpired, experts: LRU });
      return true;
    };
    this.#hasOld = yield* index.removeBeside(this.#oldTable, met, chooses);
    return gone;
  }

  #isYoung({ access, isExpired }: Pick<Candidate, 'access' | 'isExpired'>): boolean {
    const now = this.#pool.clock.now() * TICKS_PER_MS;
    return !isExpired && now - this.#victimAccess > YOUNG_FACTOR * Math.max(0, now - access.ticks);
  }

  readonly #choose = (): Expert => {
    if (this.bound.eviction === 'lru') return LRU;
    return this.bound.eviction === 'lfu' ? LFU : this.experts.choose(this.#pool.clock.chance);
  };

  /** Adapts how many places a sample reads. True when the next sample must be taken at once. */
  #wasTooSmall(met: number): boolean {
    const before = this.#places;
    if (met < SAMPLE / 2) this.#places = Math.min(PLACES_MAX, 2 * before);
    else if (met >= SAMPLE) this.#places = Math.max(1, before - 1);
    return this.#places > before;
  }
}

/** The bound that `maxRecords`, `maxBytes` and `eviction` ask for. Raises SW_INVALID_ARGUMENT. */
export function boundSettings(options: OpenOptions): BoundSettings | undefined {
  const { maxRecords, maxBytes, eviction = 'lru' } = options;
  if (!EVICTIONS.includes(eviction)) {
    throw invalid(`eviction is one of ${EVICTIONS.join(', ')}: ${shown(eviction)}`);
  }
  if (maxRecords !== undefined && maxBytes !== undefined) {
    throw invalid('a store has maxRecords or maxBytes, not both');
  }
  const unit = maxBytes === undefined ? 'records' : 'bytes';
  const limit = maxRecords === undefined ? bytesOf('maxBytes', maxBytes) : maxRecords;
  if (limit === undefined) {
    if (options.eviction === undefined) return undefined;
    throw invalid('eviction needs maxRecords or maxBytes');
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`max${unit === 'records' ? 'Records' : 'Bytes'} is 1 or more: ${shown(limit)}`);
  }
  return { unit, limit, eviction };
}

/** Raises SW_UNSUPPORTED for delegation. */
export function refuseDelegation({ delegation }: OpenOptions): void {
  if (!delegation) return;
  throw new StepwellError('SW_UNSUPPORTED', 'a bounded store has no delegation: it counts writes');
}

/** Raises SW_STORE_MISMATCH when a store does not have the bound that is asked for. */
export function refuseOtherBound(
  store: string,
  bound: Bound | undefined,
  wanted: BoundSettings,
): void {
  const { unit, limit, eviction } = wanted;
  if (bound?.unit === unit && bound.limit === limit && bound.eviction === eviction) return;
  const is = bound === undefined ? 'no bound' : described(bound);
  throw new StepwellError(
    'SW_STORE_MISMATCH',
    `store ${store} exists with ${is}, not ${described(wanted)}`,
  );
}

function described({ unit, limit, eviction }: BoundSettings): string {
  return `${unit === 'records' ? 'maxRecords' : 'maxBytes'} ${limit}, eviction ${eviction}`;
}
