import { StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  type Index,
  isOrdered,
  type Outcome,
  REFUSED,
  resizesOf,
  retriesOf,
} from '../../indexes/contract.ts';
import type { FoundRecord, Request } from '../../indexes/substrates/request.ts';
import { shapeOf } from '../../indexes/traversal/count.ts';
import { checkValue } from '../../records/codec.ts';
import type { Expiry } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import { measureStore } from '../administration/statistics.ts';
import type {
  BoundedIncrement,
  BoundedOptions,
  ClientCounters,
  Entry,
  ExpiryOptions,
  Key,
  KeyPage,
  Page,
  RecordMetadata,
  ReplaceOptions,
  StoreStats,
  Value,
  WriteOptions,
  WriteResult,
} from '../api.ts';
import {
  checkFlag,
  checkFunction,
  checkIncrement,
  checkOptions,
  conditionOf,
  counterBoundsIn,
  prefixIn,
  unsupported,
  versionOf,
} from '../arguments.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { BoundedStore } from '../eviction/bounded-store.ts';
import type { CopiedRecord, Decide, StatesRead } from '../internal-calls.ts';
import { keyBytes } from '../keys.ts';
import { UNPROVEN } from '../near/near-reads.ts';
import type { RangeBounds, RangeOptions } from '../ordered-api.ts';
import { encoded, storedValue } from '../values.ts';
import { addTo } from './counters.ts';
import { EXPIRY_OPTIONS, expiryIn } from './expiry.ts';
import { boundsOnly, rangeOf } from './key-range.ts';
import { ManyKeys } from './many-keys.ts';
import { countKeys, orderedIndex, planScan, type RangeScan, type ScanPlan } from './range-scan.ts';
import { type CallSettings, RecordAccess, type Taken } from './record-access.ts';
import { checkPage, copyPage, pageOf, RecordWalk } from './record-walk.ts';
import {
  type Builders,
  builders,
  keyBuilders,
  pairBuilders,
  rawKeyBuilder,
} from './result-builders.ts';
import { loadSorted } from './sorted-load.ts';
import { changeState, readStates } from './states.ts';

const REPLACE_OPTIONS = ['keepTtl', ...EXPIRY_OPTIONS];
const WRITE_OPTIONS = ['when', 'previous', ...REPLACE_OPTIONS];

/** Each failed attempt means that another client has changed the key. */
const ATTEMPTS_MAX = 1000;
/** Keys that `clear` removes together, and that `count` gathers. */
const KEYS_TOGETHER = 256;

/** A record as it was found, to be replaced as long as no client changes it. */
interface Seen {
  readonly version: number;
  readonly expiry: Expiry | undefined;
  readonly expiresAt: number;
  /** Only where it was asked for. */
  readonly value: Value;
}

/**
 * Every call of a store, as an operation, for every fabric. Keys and values are encoded before the
 * first verb: afterwards the caller may change their bytes. A walk or a scan enters the pool for
 * each step: between two steps it holds nothing of the pool, however long its caller takes. See
 * api.ts for what each call does.
 */
export class StoreCalls<V> {
  readonly #access: RecordAccess;
  readonly #many: ManyKeys<V>;
  readonly #pairs: Builders<[Key, V]>;
  readonly #keys: Builders<Key>;
  readonly #rawKeys: Builders<Uint8Array>;

  constructor(
    attachment: Attachment,
    index: Index,
    settings: CallSettings,
    bounded?: BoundedStore | undefined,
  ) {
    this.#access = new RecordAccess(attachment, index, settings, bounded);
    this.#many = new ManyKeys(this.#access);
    this.#pairs = pairBuilders(settings);
    this.#keys = keyBuilders(settings);
    this.#rawKeys = builders(() => rawKeyBuilder(settings.namespace));
  }

  get name(): string {
    return this.#access.settings.name;
  }

  *get(key: Key): Operation<V | undefined> {
    const access = this.#access;
    if (access.near !== undefined) {
      const value = yield* access.near.read(key);
      if (value !== UNPROVEN) return value as V;
    }
    const request = access.requestToRead(key);
    yield* access.attachment.enter();
    try {
      if (!(yield* access.searchLive(request))) return access.noteAbsent(key);
      return access.kept(key, request, yield* access.foundValue(request)) as V;
    } finally {
      access.end(request);
    }
  }

  *getEntry(key: Key): Operation<Entry<V> | undefined> {
    const access = this.#access;
    if (access.near !== undefined) {
      const value = yield* access.near.read(key);
      if (value !== UNPROVEN) return { key, value: value as V, version: access.near.version };
    }
    const request = access.requestToRead(key);
    yield* access.attachment.enter();
    try {
      if (!(yield* access.searchLive(request))) return access.noteAbsent(key);
      const value = access.kept(key, request, yield* access.foundValue(request)) as V;
      return { key, value, version: request.found.version };
    } finally {
      access.end(request);
    }
  }

  *has(key: Key): Operation<boolean> {
    const access = this.#access;
    if (access.near !== undefined && (yield* access.near.read(key)) !== UNPROVEN) return true;
    const request = access.requestToRead(key);
    yield* access.attachment.enter();
    try {
      return yield* access.searchLive(request);
    } finally {
      access.end(request);
    }
  }

  *read<T>(key: Key, use: (bytes: Uint8Array) => T): Operation<T | undefined> {
    const access = this.#access;
    access.attachment.refuseClosed();
    checkFunction('the argument of read', use);
    const request = access.requestTo('read', key);
    yield* access.attachment.enter();
    try {
      if (!(yield* access.searchLive(request))) return undefined;
      const isChained = request.found.isChained;
      yield* access.index.records.complete(request);
      return use(isChained ? foundBytes(request.found) : this.#bytesInPool(request));
    } finally {
      access.end(request);
    }
  }

  /** The found value in the pool itself, where that is within reach and never changes. */
  #bytesInPool(request: Request): Uint8Array {
    if (request.found.isInline) return foundBytes(request.found);
    const { attachment } = this.#access;
    const { foundAddress } = request;
    const { at: foundAt, contentAt, contentBytes } = request.found;
    const address = foundAddress + (contentAt - foundAt);
    return attachment.window?.(address, contentBytes) ?? foundBytes(request.found);
  }

  *set(key: Key, value: unknown, options?: ExpiryOptions): Operation<void> {
    const access = this.#access;
    const data = encoded(value, access.settings.values);
    yield* access.store(key, data, ALWAYS, access.expiryOf(options));
  }

  *insert(key: Key, value: unknown, options?: ExpiryOptions): Operation<boolean> {
    const access = this.#access;
    const data = encoded(value, access.settings.values);
    return (yield* access.store(key, data, IF_ABSENT, access.expiryOf(options))) !== REFUSED;
  }

  *update(key: Key, value: unknown, options?: ExpiryOptions): Operation<boolean> {
    const access = this.#access;
    const data = encoded(value, access.settings.values);
    return (yield* access.store(key, data, IF_PRESENT, access.expiryOf(options))) !== REFUSED;
  }

  *write(key: Key, given: unknown, options: WriteOptions = {}): Operation<WriteResult<V>> {
    const access = this.#access;
    access.attachment.refuseClosed();
    const keepTtl = keepsTtl(options, WRITE_OPTIONS);
    const value = encoded(given, access.settings.values);
    const { condition, previous } = conditionOf(options);
    const expiry = this.#expiryIn(options);
    const taken: Taken | undefined = previous ? { value: undefined } : undefined;
    const outcome = yield* keepTtl
      ? this.#storeKeeping(kept(key), kept(value), condition, expiry, taken)
      : access.store(key, value, condition, expiry, 0, taken);
    return { written: outcome !== REFUSED, previous: taken?.value as V | undefined };
  }

  /** The record that is replaced says when the new one expires. */
  *#storeKeeping(
    key: Key,
    value: Value,
    condition: Condition,
    expiry: Expiry | undefined,
    taken: Taken | undefined,
  ): Operation<Outcome> {
    const access = this.#access;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const seen = yield* this.#look(key, false);
      const isRefused = condition === (seen ? IF_ABSENT : IF_PRESENT);
      if (isRefused) return yield* access.store(key, value, condition, expiry, 0, taken);
      const outcome = yield* seen
        ? access.store(key, value, IF_VERSION, seen.expiry, seen.version, taken)
        : access.store(key, value, IF_ABSENT, expiry, 0, taken);
      if (outcome !== REFUSED) return outcome;
    }
    throw changedAgain();
  }

  *swap(
    key: Key,
    value: unknown,
    options: Omit<WriteOptions, 'previous' | 'when'> = {},
  ): Operation<V | undefined> {
    return (yield* this.write(key, value, { ...options, previous: true })).previous;
  }

  *compareAndSet(
    key: Key,
    version: number,
    given: unknown,
    options?: ReplaceOptions,
  ): Operation<number | undefined> {
    const access = this.#access;
    access.attachment.refuseClosed();
    const value = encoded(given, access.settings.values);
    const expected = versionOf(version);
    if (options === undefined || !keepsTtl(options, REPLACE_OPTIONS)) {
      return yield* access.replace(key, expected, value, this.#expiryIn(options));
    }
    const [own, data] = [kept(key), kept(value)];
    // A change of the expiry alone also changes the version.
    const seen = yield* this.#look(own, false);
    if (seen?.version !== expected) return undefined;
    return yield* access.replace(own, expected, data, seen.expiry);
  }

  *expire(key: Key, options?: ExpiryOptions): Operation<boolean> {
    const access = this.#access;
    access.attachment.refuseClosed();
    const expiry = access.expiryOf(options);
    const own = kept(key);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const seen = yield* this.#look(own, true);
      if (seen === undefined) return false;
      const outcome = yield* access.store(own, seen.value, IF_VERSION, expiry, seen.version);
      if (outcome !== REFUSED) return true;
    }
    throw changedAgain();
  }

  *ttl(key: Key): Operation<number | undefined> {
    const seen = yield* this.#look(key, false);
    if (seen === undefined) return undefined;
    return Math.max(0, seen.expiresAt - this.#access.attachment.pool.clock.now());
  }

  *metadata(key: Key): Operation<RecordMetadata | undefined> {
    const seen = yield* this.#look(key, false);
    return seen && { version: seen.version, expiresAt: seen.expiresAt };
  }

  /** When a record that is written now expires, of options with `keepTtl` beside that. */
  #expiryIn(options: ReplaceOptions = {}): Expiry | undefined {
    const { attachment, settings } = this.#access;
    return expiryIn(options, settings.lifetime, attachment.pool.clock.now);
  }

  /** The key's record, if it has not expired. */
  *#look(key: Key, withValue: boolean): Operation<Seen | undefined> {
    const access = this.#access;
    const { records } = access.index;
    const request = access.requestTo('read', key);
    yield* access.attachment.enter();
    try {
      if (!(yield* access.index.search(request)) || records.isExpired(request)) return undefined;
      if (withValue) yield* records.complete(request);
      // `auto` decodes by the record's own codec, so the value encodes to the same bytes again.
      const value = withValue ? storedValue(request, 'auto') : '';
      const { foundExpiry: expiry, foundExpiresAt: expiresAt } = request;
      const { version } = request.found;
      return { version, expiry, expiresAt, value };
    } finally {
      access.end(request);
    }
  }

  *delete(key: Key): Operation<boolean> {
    return yield* this.#access.remove(key);
  }

  *compareAndDelete(key: Key, version: number): Operation<boolean> {
    return yield* this.#access.remove(key, versionOf(version));
  }

  *take(key: Key): Operation<V | undefined> {
    const taken: Taken = { value: undefined };
    yield* this.#access.remove(key, undefined, taken);
    return taken.value as V | undefined;
  }

  *increment(
    key: Key,
    by: number | bigint = 1,
    options?: ExpiryOptions,
  ): Operation<number | bigint> {
    const access = this.#access;
    access.attachment.refuseClosed();
    checkIncrement(by);
    const isNumber = typeof by === 'number';
    const { sum } = yield* addTo(access, key, BigInt(by), isNumber, access.expiryOf(options));
    return isNumber ? Number(sum) : sum;
  }

  *incrementWithin(
    key: Key,
    by: number | bigint,
    options: BoundedOptions<number | bigint>,
  ): Operation<BoundedIncrement<number | bigint>> {
    const access = this.#access;
    access.attachment.refuseClosed();
    checkIncrement(by);
    checkOptions(options, ['min', 'max', ...EXPIRY_OPTIONS]);
    const expiry = this.#expiryIn(options);
    const bounds = counterBoundsIn(options, by);
    const isNumber = typeof by === 'number';
    const added = yield* addTo(access, key, BigInt(by), isNumber, expiry, bounds);
    const ttlMs = Math.max(0, added.expiresAt - access.attachment.pool.clock.now());
    return { applied: added.applied, value: isNumber ? Number(added.sum) : added.sum, ttlMs };
  }

  *append(key: Key, value: Value, options?: ExpiryOptions): Operation<number> {
    const access = this.#access;
    access.attachment.refuseClosed();
    const { name, values } = access.settings;
    if (typeof values !== 'string') {
      const why = `store ${name} keeps values in the format ${values.name}`;
      throw unsupported(`${why}: append is for text and bytes`);
    }
    checkValue(value);
    const own = kept(value);
    const expiry = access.expiryOf(options);
    const request = access.requestTo('write', key);
    const again = keyBytes(access.keyIn(key));
    let length = 0;
    yield* access.modify(request, expiry, (present) => {
      const joined = present ? join(storedValue(request, 'auto'), own) : own;
      length = Buffer.byteLength(joined);
      access.put(request, again, joined, present ? request.foundExpiry : expiry);
    });
    return length;
  }

  /** See states.ts. */
  changeState<T>(name: string, decide: Decide<T>): Operation<T> {
    return changeState(this.#access, name, decide);
  }

  /** See states.ts. */
  readStates(from: string, to: string, limit: number): Operation<StatesRead> {
    return readStates(this.#access, from, to, limit);
  }

  getMany(keys: readonly Key[], options?: { maxBytes?: number }): Operation<(V | undefined)[]> {
    return this.#many.get(keys, options);
  }

  /** An entry that is refused ends it; entries before may have been stored. */
  setMany(entries: Iterable<readonly [Key, unknown]>, options?: ExpiryOptions): Operation<void> {
    return this.#many.set(entries, options);
  }

  deleteMany(keys: readonly Key[]): Operation<number> {
    return this.#many.delete(keys);
  }

  /** Stores records as another store has them, with their kinds and times. */
  *putCopies(copies: readonly CopiedRecord[]): Operation<void> {
    const { attachment } = this.#access;
    attachment.refuseClosed();
    yield* attachment.each(copies, attachment.width, (copy) => this.#putCopy(copy));
  }

  *#putCopy({ key, value, codec, expiry }: CopiedRecord): Operation<void> {
    const access = this.#access;
    const request = access.requestTo('write', key);
    yield* access.modify(request, expiry, () => {
      access.put(request, key, value, expiry, codec);
    });
  }

  copyPage(cursor: number, count: number): Operation<{ cursor: number; records: CopiedRecord[] }> {
    return copyPage(this.#access, cursor, count);
  }

  *size(): Operation<number> {
    const { attachment, index, settings } = this.#access;
    // Where records expire, only they tell whether they count.
    if (settings.namespace !== undefined || (yield* this.#isTimed())) {
      return yield* this.count({ prefix: '' });
    }
    return (yield* inSection(attachment, () => shapeOf(index))).records;
  }

  *#isTimed(): Operation<boolean> {
    const { attachment, index } = this.#access;
    attachment.refuseClosed();
    return yield* inSection(attachment, () =>
      attachment.pool.catalog.isTimed(index.records.catalog),
    );
  }

  // biome-ignore lint/correctness/useYield: an operation as the other calls are
  *counters(): Operation<ClientCounters> {
    const { attachment, index } = this.#access;
    attachment.refuseClosed();
    const traffic = attachment.traffic.snapshot();
    return { traffic, retries: retriesOf(index), resizes: resizesOf(index) };
  }

  *stats(): Operation<StoreStats> {
    const { attachment, bounded, index, settings } = this.#access;
    const traffic = attachment.traffic.snapshot();
    const measured = yield* inSection(attachment, () => measureStore(attachment.pool, index));
    const near = this.#access.near?.stats;
    const all: StoreStats = { traffic, ...measured, ...(near && { near }) };
    if (bounded === undefined) return all;
    const bound = yield* inSection(attachment, () => bounded.stats(settings.readOnly === true));
    return { ...all, bound };
  }

  *scanPage(cursor: number, count = 10): Operation<Page<V>> {
    this.#access.attachment.refuseClosed();
    checkPage(cursor, count);
    const walk = this.newWalk(cursor);
    const entries = yield* pageOf(walk, count, () => walk.entries());
    return { cursor: walk.cursor, entries };
  }

  *scanKeys(cursor: number, count = 10, options: { prefix?: Key } = {}): Operation<KeyPage> {
    this.#access.attachment.refuseClosed();
    checkPage(cursor, count);
    const walk = this.newWalk(cursor, prefixIn(options));
    const keys = yield* pageOf(walk, count, () => walk.keys());
    return { cursor: walk.cursor, keys };
  }

  newWalk(cursor?: number, prefix?: Key): RecordWalk<V> {
    this.#access.attachment.refuseClosed();
    return new RecordWalk<V>(this.#access, cursor, prefix);
  }

  /** Raises SW_UNSUPPORTED for an index whose keys have no order. */
  newScan<T>(plan: ScanPlan<T>): RangeScan<T> {
    return plan.begin(this.#access);
  }

  *first(bounds: RangeBounds = {}): Operation<[Key, V] | undefined> {
    return yield* this.#end(bounds, false);
  }

  *last(bounds: RangeBounds = {}): Operation<[Key, V] | undefined> {
    return yield* this.#end(bounds, true);
  }

  /** The first record of a range in its direction. */
  *#end(bounds: RangeBounds, reverse: boolean): Operation<[Key, V] | undefined> {
    const { attachment, index, settings } = this.#access;
    attachment.refuseClosed();
    const ordered = orderedIndex(index, settings.name);
    const range = { ...boundsOnly(bounds), reverse, limit: 1 };
    const plan = planScan(ordered, range, 'records', this.#pairs, settings);
    return (yield* this.newScan(plan).takeMany(1))[0];
  }

  /** The first keys of a range in its direction, at most so many. */
  *keysIn(bounds: RangeBounds, reverse: boolean, limit: number): Operation<Key[]> {
    const { attachment, index, settings } = this.#access;
    attachment.refuseClosed();
    const range = { ...boundsOnly(bounds), reverse, limit };
    const plan = planScan(index, range, 'keys', this.#keys, settings);
    return yield* this.newScan(plan).takeMany(limit);
  }

  *count(bounds: RangeBounds = {}): Operation<number> {
    const { attachment, index, settings } = this.#access;
    attachment.refuseClosed();
    const { namespace } = settings;
    const own = boundsOnly(bounds);
    if (isOrdered(index)) {
      const { range } = rangeOf(own);
      const within = namespace?.within(range) ?? range;
      return yield* countKeys(this.#access, index, within, yield* this.#isTimed());
    }
    const scan = this.newScan(planScan(index, own, 'keys', this.#rawKeys, settings));
    let count = 0;
    while (!scan.done) count += (yield* scan.takeMany(KEYS_TOGETHER)).length;
    return count;
  }

  *clear(range?: RangeOptions): Operation<number> {
    const { evictor, index, settings } = this.#access;
    this.#access.refuseWrite();
    const isOrderedView = settings.namespace !== undefined && isOrdered(index);
    if (range !== undefined || isOrderedView) {
      return yield* this.#clearRange(range === undefined ? {} : range);
    }
    let removed = settings.namespace === undefined ? yield* this.#access.clearMost() : 0;
    const walk = this.newWalk();
    while (!walk.done) {
      const keys: Uint8Array[] = [];
      while (!walk.done && keys.length < KEYS_TOGETHER) {
        for (const key of yield* walk.keysToClear()) keys.push(key);
      }
      removed += yield* this.deleteMany(keys);
    }
    // A recount is cheap in a store that is nearly empty, and it corrects lost counts.
    if (settings.namespace === undefined && evictor !== undefined) yield* evictor.recount();
    return removed;
  }

  *#clearRange(range: RangeOptions): Operation<number> {
    const { attachment, index, settings } = this.#access;
    attachment.refuseClosed();
    const scan = this.newScan(planScan(index, range, 'keys', this.#rawKeys, settings));
    let removed = 0;
    while (!scan.done) removed += yield* this.deleteMany(yield* scan.takeMany(KEYS_TOGETHER));
    return removed;
  }

  loadSorted(entries: Iterable<readonly [Key, unknown]>): Operation<number> {
    return loadSorted(this.#access, entries);
  }
}

function foundBytes({ memory, contentAt, contentBytes }: FoundRecord): Uint8Array {
  return memory.u8.subarray(contentAt, contentAt + contentBytes);
}

/** For a later round trip: the caller may use its buffer again as soon as the call has begun. */
function kept<C extends Key | Value>(content: C): C {
  return content instanceof Uint8Array ? (new Uint8Array(content) as C) : content;
}

/** Raises SW_INVALID_ARGUMENT. */
function keepsTtl(options: ReplaceOptions, names: readonly string[]): boolean {
  checkOptions(options, names);
  const { keepTtl = false } = options;
  checkFlag('keepTtl', keepTtl);
  return keepTtl;
}

function changedAgain(): StepwellError {
  return new StepwellError('SW_CONTENTION', 'other clients change the key again and again');
}

/** Text if both are. */
function join(old: Value, more: Value): Value {
  if (typeof old === 'string' && typeof more === 'string') return old + more;
  const parts = [old, more].map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  return new Uint8Array(Buffer.concat(parts));
}
