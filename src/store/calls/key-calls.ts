import { StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  type Index,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Meter } from '../../pool/clients/meter.ts';
import { type Expiry, NEVER } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Encoding, Entry, ExpiryOptions, Key, Value } from '../api.ts';
import type { BoundedStore } from '../eviction/bounded-store.ts';
import { addsKeys, countable, Evictor, withoutNewKeys } from '../eviction/evictor.ts';
import { encoded, type Format } from '../values/value-format.ts';
import { checkFunction, checkIncrement, versionOf } from './arguments.ts';
import type { Attachment } from './attachment.ts';
import { decodeValue } from './decoding.ts';
import { expiryOf, type Lifetime } from './expiry.ts';
import { FirstVersions } from './first-versions.ts';
import { FullPool } from './full-pool.ts';
import { checkRange, integerIn, integerOut } from './integers.ts';
import type { Namespace } from './ranges/namespace.ts';
import { IdleRequests } from './requests.ts';
import type { WriteKind } from './vain-sweeps.ts';

/** Bytes of a counter in decimal digits, with room. */
const COUNTER_BYTES = 32;

/** How a store was opened. */
export interface CallSettings {
  name: string;
  keys: Encoding;
  values: Format;
  /** The keys that the calls are about, if not all. */
  namespace?: Namespace | undefined;
  /** Whether calls in flight on one key share verbs. */
  delegation: boolean;
  /** Whether the calls may only read. */
  readOnly?: boolean | undefined;
  /** How long records live whose writes do not say. */
  lifetime?: Lifetime | undefined;
}

/** Where a call that wants it puts the value of a record that it replaces or removes. */
export interface Taken<V> {
  value: V | undefined;
}

/** A modification that leaves everything as it is. */
class Unchanged {}

/** What a counter must stay within. */
interface CounterBounds {
  min?: bigint | undefined;
  max?: bigint | undefined;
}

/** What became of a counter. */
interface Added {
  applied: boolean;
  sum: bigint;
  expiresAt: number;
}

/**
 * The calls of a store on one key, for every fabric. Keys and values are encoded before the first
 * verb: afterwards the caller may change their bytes. See api.ts for what each call does.
 */
export class KeyCalls<V> {
  protected readonly attachment: Attachment;
  protected readonly index: Index;
  protected readonly settings: CallSettings;
  protected readonly requests: IdleRequests;
  protected readonly meter: Meter;
  protected readonly versions = new FirstVersions();
  readonly #full: FullPool;
  /** Of a bounded store. */
  protected readonly bounded: BoundedStore | undefined;
  /** What writes do about the bound; a handle for reading counts and evicts nothing. */
  protected readonly evictor: Evictor | undefined;
  /** Whether this handle has noted that the store may have records that expire. */
  #isTimed = false;

  constructor(
    attachment: Attachment,
    index: Index,
    settings: CallSettings,
    bounded?: BoundedStore | undefined,
  ) {
    this.attachment = attachment;
    this.index = index;
    this.settings = settings;
    this.meter = attachment.pool.meter;
    this.requests = new IdleRequests(index, this.meter);
    this.bounded = bounded;
    if (bounded && !settings.readOnly) {
      this.evictor = new Evictor(bounded, index, attachment, settings.name);
    }
    this.#full = new FullPool(attachment, index, settings.name, this.evictor);
  }

  /** Of the store. */
  get name(): string {
    return this.settings.name;
  }

  *get(key: Key): Operation<V | undefined> {
    const request = this.requestToRead(key);
    yield* this.attachment.enter();
    try {
      if (!(yield* this.searchLive(request))) return undefined;
      return yield* this.foundValue(request);
    } finally {
      this.end(request);
    }
  }

  *getEntry(key: Key): Operation<Entry<V> | undefined> {
    const request = this.requestToRead(key);
    yield* this.attachment.enter();
    try {
      if (!(yield* this.searchLive(request))) return undefined;
      const value = yield* this.foundValue(request);
      return { key, value, version: request.foundVersion };
    } finally {
      this.end(request);
    }
  }

  *has(key: Key): Operation<boolean> {
    const request = this.requestToRead(key);
    yield* this.attachment.enter();
    try {
      return yield* this.searchLive(request);
    } finally {
      this.end(request);
    }
  }

  *read<T>(key: Key, use: (bytes: Uint8Array) => T): Operation<T | undefined> {
    this.attachment.refuseClosed();
    checkFunction('the argument of read', use);
    const request = this.requestToRead(key);
    yield* this.attachment.enter();
    try {
      if (!(yield* this.searchLive(request))) return undefined;
      const isChained = request.foundChained;
      yield* this.complete(request);
      return use(isChained ? foundBytes(request) : this.#bytesInPool(request));
    } finally {
      this.end(request);
    }
  }

  *set(key: Key, value: unknown, options?: ExpiryOptions): Operation<void> {
    yield* this.store(key, this.encoded(value), ALWAYS, this.expiryOf(options));
  }

  *insert(key: Key, value: unknown, options?: ExpiryOptions): Operation<boolean> {
    const data = this.encoded(value);
    return (yield* this.store(key, data, IF_ABSENT, this.expiryOf(options))) !== REFUSED;
  }

  *update(key: Key, value: unknown, options?: ExpiryOptions): Operation<boolean> {
    const data = this.encoded(value);
    return (yield* this.store(key, data, IF_PRESENT, this.expiryOf(options))) !== REFUSED;
  }

  /** The version of the new record; undefined if the key does not have the expected one. */
  protected *replace(
    key: Key,
    expected: number,
    data: Value,
    expiry: Expiry | undefined,
  ): Operation<number | undefined> {
    const request = this.#requestToStore(key, data, expiry);
    try {
      const outcome = yield* this.#write(request, IF_VERSION, expected);
      return outcome === REFUSED ? undefined : request.outgoingVersion;
    } finally {
      this.requests.give(request);
    }
  }

  *compareAndDelete(key: Key, version: number): Operation<boolean> {
    return yield* this.#remove(key, versionOf(version));
  }

  *delete(key: Key): Operation<boolean> {
    return yield* this.#remove(key);
  }

  *take(key: Key): Operation<V | undefined> {
    const taken: Taken<V> = { value: undefined };
    yield* this.#remove(key, undefined, taken);
    return taken.value;
  }

  *increment(
    key: Key,
    by: number | bigint = 1,
    options?: ExpiryOptions,
  ): Operation<number | bigint> {
    this.attachment.refuseClosed();
    checkIncrement(by);
    const isNumber = typeof by === 'number';
    const { sum } = yield* this.add(key, BigInt(by), isNumber, this.expiryOf(options));
    return typeof by === 'number' ? Number(sum) : sum;
  }

  /** When a record that is written now expires. Raises SW_INVALID_ARGUMENT. */
  protected expiryOf(options: ExpiryOptions | undefined): Expiry | undefined {
    const { lifetime } = this.settings;
    if (options === undefined && lifetime === undefined) return undefined;
    return expiryOf(options, lifetime, this.attachment.pool.clock.now);
  }

  /** Raises SW_READ_ONLY. */
  protected refuseWrite(): void {
    if (!this.settings.readOnly) return;
    const why = `store ${this.settings.name} was opened with readOnly: true`;
    throw new StepwellError('SW_READ_ONLY', why);
  }

  /** Before the first record that expires: the store may have some from now on. */
  *#noteTimed(): Operation<void> {
    if (this.#isTimed) return;
    yield* this.attachment.pool.catalog.noteTimed(this.index.catalog);
    this.#isTimed = true;
  }

  /** Finds the key if its record has not expired; notes that it was used. */
  protected *searchLive(request: Request): Operation<boolean> {
    if (!(yield* this.index.search(request))) return this.isMiss();
    return this.countsAnyhow(request) || (yield* this.isLive(request));
  }

  /** False, for a key that is not there; a bounded store counts misses and hits. */
  protected isMiss(): false {
    this.meter.countMiss();
    this.evictor?.store.ledger.countMiss();
    return false;
  }

  /** Whether nothing has to be looked at, or noted, of the found record. */
  protected countsAnyhow(request: Request): boolean {
    return request.timesAt < 0 && this.evictor === undefined;
  }

  /** Whether the found record has not expired; notes that it was used. */
  protected *isLive(request: Request): Operation<boolean> {
    const { records } = this.index;
    if (records.isExpired(request)) return this.isMiss();
    if (this.settings.readOnly) return true;
    const evictor = this.evictor;
    evictor?.store.ledger.countHit();
    if (evictor?.store.evicts === true || records.slides(request)) {
      yield* this.index.touch(request);
    }
    return true;
  }

  protected *store(
    key: Key,
    value: Value,
    condition: Condition,
    expiry: Expiry | undefined,
    expected = 0,
    taken?: Taken<V>,
  ): Operation<Outcome> {
    const request = this.#requestToStore(key, value, expiry);
    try {
      return yield* this.#write(request, condition, expected, taken);
    } finally {
      this.requests.give(request);
    }
  }

  *#write(
    request: Request,
    condition: Condition,
    expected: number,
    taken?: Taken<V>,
  ): Operation<Outcome> {
    const evictor = this.evictor;
    if (evictor === undefined) {
      return yield* this.#writeRelieved(request, condition, expected, taken);
    }
    return yield* this.#writeBounded(request, condition, evictor, expected, taken);
  }

  *#writeBounded(
    request: Request,
    condition: Condition,
    evictor: Evictor,
    expected: number,
    taken: Taken<V> | undefined,
  ): Operation<Outcome> {
    evictor.refuseTooLarge(request);
    yield* evictor.lookIfStale();
    const mayBeShut = evictor.countsBytes || addsKeys(condition);
    const outcome =
      mayBeShut && evictor.isShut(request, false)
        ? yield* this.#writeToShut(request, condition, evictor, expected, taken)
        : yield* this.#writeRelieved(request, countable(condition), expected, taken);
    if (outcome !== REFUSED) yield* evictor.settle(request);
    return outcome;
  }

  /**
   * Writes to a store that has no room for a new record, as far as this client knows: replaces one
   * that is there. Raises SW_POOL_FULL.
   */
  *#writeToShut(
    request: Request,
    condition: Condition,
    evictor: Evictor,
    expected: number,
    taken: Taken<V> | undefined,
  ): Operation<Outcome> {
    if (condition !== IF_ABSENT && !evictor.countsBytes) {
      const when = withoutNewKeys(condition);
      const outcome = yield* this.#writeRelieved(request, when, expected, taken);
      if (outcome !== REFUSED) return outcome;
    }
    if (yield* this.#refuses(request, condition, evictor)) throw evictor.shut();
    return yield* this.#writeRelieved(request, countable(condition), expected, taken);
  }

  /**
   * Whether a shut store refuses the write: not when it replaces a record, which may have expired,
   * by one that is no longer; nor when its condition stores nothing.
   */
  *#refuses(request: Request, condition: Condition, evictor: Evictor): Operation<boolean> {
    const isThere = yield* this.#hasRecord(request);
    const isLive = isThere && !this.index.records.isExpired(request);
    if (isLive ? condition === IF_ABSENT : !addsKeys(condition)) return false;
    return yield* evictor.isStillShut(request, isThere);
  }

  *#hasRecord(request: Request): Operation<boolean> {
    yield* this.attachment.enter();
    try {
      return yield* this.index.search(request);
    } finally {
      this.attachment.exit();
    }
  }

  *#writeRelieved(
    request: Request,
    condition: Condition,
    expected: number,
    taken?: Taken<V>,
  ): Operation<Outcome> {
    for (let remedy = 0; ; ) {
      try {
        return yield* this.#writeOnce(request, condition, expected, taken);
      } catch (error) {
        remedy = yield* this.relieve(error, remedy, 'write', request);
      }
    }
  }

  *#writeOnce(
    request: Request,
    condition: Condition,
    expected: number,
    taken: Taken<V> | undefined,
  ): Operation<Outcome> {
    yield* this.attachment.enter();
    try {
      // In a bounded store also records that never expire have times.
      if (request.expiry !== undefined && request.expiry !== NEVER) yield* this.#noteTimed();
      const outcome = yield* this.index.write(request, condition, expected);
      if (outcome !== REFUSED) yield* this.#count(request, outcome);
      const found = outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0);
      if (taken !== undefined && found) taken.value = yield* this.foundValue(request);
      return outcome;
    } finally {
      this.attachment.exit();
    }
  }

  /** After a write of a bounded store, in its section. */
  *#count(request: Request, outcome: Outcome): Operation<void> {
    const evictor = this.evictor;
    if (evictor === undefined) return;
    yield* evictor.written(request);
    const inherits = evictor.store.evicts && outcome === REPLACED && request.timesAt >= 0;
    if (inherits) yield* this.index.inheritUses(request);
  }

  /** An index that writes in order to remove may meet a full pool. */
  *#remove(key: Key, expected?: number, taken?: Taken<V>): Operation<boolean> {
    this.refuseWrite();
    const request = this.requestToChange(key);
    try {
      for (let remedy = 0; ; ) {
        try {
          return yield* this.#removeOnce(request, expected, taken);
        } catch (error) {
          remedy = yield* this.relieve(error, remedy, 'deletion');
        }
      }
    } finally {
      this.requests.give(request);
    }
  }

  /** Removes a record if it still has that version. */
  protected removeVersion(key: Key, version: number): Operation<boolean> {
    return this.#remove(key, version);
  }

  *#removeOnce(
    request: Request,
    expected: number | undefined,
    taken: Taken<V> | undefined,
  ): Operation<boolean> {
    yield* this.attachment.enter();
    try {
      const removed = yield* this.index.remove(request, expected);
      yield* this.#countRemoval(request);
      if (taken !== undefined && removed) taken.value = yield* this.foundValue(request);
      return removed;
    } finally {
      this.attachment.exit();
    }
  }

  *#countRemoval(request: Request): Operation<void> {
    if (this.evictor === undefined) return;
    this.evictor.removed(request);
    yield* this.evictor.store.ledger.publish();
  }

  /** Leaves a counter that would leave its bounds what it is; `sum` is what it is afterwards. */
  protected *add(
    key: Key,
    by: bigint,
    safe: boolean,
    expiry: Expiry | undefined,
    { min, max }: CounterBounds = {},
  ): Operation<Added> {
    const request = this.requestToChange(key, COUNTER_BYTES);
    const { values } = this.settings;
    const added: Added = { applied: false, sum: 0n, expiresAt: Number.POSITIVE_INFINITY };
    yield* this.modified(request, expiry, (present) => {
      const old = present ? integerIn(request, values) : 0n;
      const sum = old + by;
      added.applied = (min === undefined || sum >= min) && (max === undefined || sum <= max);
      added.sum = added.applied ? checkRange(sum, safe) : checkRange(old, safe);
      if (present) added.expiresAt = request.foundExpiresAt;
      else if (added.applied) added.expiresAt = this.#expiresAt(expiry);
      request.expiry = this.timesOf(present ? request.foundExpiry : expiry);
      if (!added.applied) throw new Unchanged();
      const data = integerOut(sum, values);
      this.index.records.encodeValue(request, data, this.versions.next());
    });
    return added;
  }

  /** When a record that is written now expires. */
  #expiresAt(expiry: Expiry | undefined): number {
    if (expiry === undefined) return Number.POSITIVE_INFINITY;
    return expiry.deadline + (expiry.sliding ? this.attachment.pool.clock.now() : 0);
  }

  /**
   * Has `compute` put a new value in the place of the one that is found, and gives the request
   * back. What `compute` raises ends it; `Unchanged` without an error. A store that takes no
   * further keys refuses what `compute` would add.
   */
  protected *modified(
    request: Request,
    expiry: Expiry | undefined,
    compute: (present: boolean) => void,
  ): Operation<void> {
    const evictor = this.evictor;
    let shut: StepwellError | undefined;
    let mayBeShut = true;
    const change = (present: boolean) => {
      compute(present);
      evictor?.refuseTooLarge(request);
      if (!mayBeShut || !evictor?.isShut(request, present)) return;
      shut = evictor.shut();
      throw shut;
    };
    try {
      this.refuseWrite();
      if (evictor !== undefined) yield* evictor.lookIfStale();
      for (let remedy = 0, done = false; !done; ) {
        try {
          yield* this.#modifyOnce(request, expiry, change);
          done = true;
        } catch (error) {
          if (error instanceof Unchanged) return;
          const isShut = evictor !== undefined && shut !== undefined && error === shut;
          // No remedy makes room in a store that evicts nothing.
          if (isShut && (yield* this.#refuses(request, ALWAYS, evictor))) throw error;
          if (isShut) mayBeShut = false;
          else remedy = yield* this.relieve(error, remedy, 'write', request);
        }
      }
      if (evictor !== undefined) yield* evictor.settle(request);
    } finally {
      this.requests.give(request);
    }
  }

  *#modifyOnce(
    request: Request,
    expiry: Expiry | undefined,
    compute: (present: boolean) => void,
  ): Operation<void> {
    yield* this.attachment.enter();
    try {
      if (expiry !== undefined) yield* this.#noteTimed();
      const outcome = yield* this.index.modify(request, compute);
      yield* this.#count(request, outcome);
    } finally {
      this.attachment.exit();
    }
  }

  /** Does what can be done about a full pool; the next remedy's number, or the error again. */
  protected relieve(
    error: unknown,
    remedy: number,
    kind: WriteKind,
    request?: Request,
  ): Operation<number> {
    return this.#full.relieve(error, remedy, kind, request);
  }

  protected *foundValue(request: Request): Operation<V> {
    yield* this.complete(request);
    return decodeValue(request, this.settings.values) as V;
  }

  /** Gathers the blocks of a long record, and verifies the checksum of a short one. */
  protected *complete(request: Request): Operation<void> {
    if (request.foundChained) yield* this.index.records.complete(request);
    else this.index.records.check(request);
  }

  /** The found value in the pool itself, where that is within reach and never changes. */
  #bytesInPool(request: Request): Uint8Array {
    if (request.foundInline) return foundBytes(request);
    const { foundAt, contentAt, contentBytes } = request;
    const address = this.index.foundAddress(request) + (contentAt - foundAt);
    return this.attachment.window(address, contentBytes) ?? foundBytes(request);
  }

  /** The key as the store has it, of which a namespace leaves out the prefix. */
  protected keyIn(key: Key): Key {
    const { namespace } = this.settings;
    return namespace === undefined ? key : namespace.key(key);
  }

  /** Raises SW_INVALID_VALUE. */
  protected encoded(value: unknown): Value {
    return encoded(value, this.settings.values);
  }

  protected requestToRead(key: Key): Request {
    const request = this.#requestFor(key, 0);
    this.meter.beginRead(request);
    return request;
  }

  protected requestToChange(key: Key, valueBound = 0): Request {
    const request = this.#requestFor(key, valueBound);
    this.meter.beginWrite(request);
    return request;
  }

  #requestFor(key: Key, valueBound: number): Request {
    this.attachment.refuseClosed();
    this.attachment.pool.clock.refuseFault();
    const request = this.requests.take();
    request.setKey(this.keyIn(key), this.index.hashSeed, valueBound);
    return request;
  }

  #requestToStore(key: Key, value: Value, expiry: Expiry | undefined): Request {
    this.attachment.refuseClosed();
    this.attachment.pool.clock.refuseFault();
    this.refuseWrite();
    const request = this.requests.take();
    const { hashSeed, records } = this.index;
    const times = this.timesOf(expiry);
    records.encode(request, this.keyIn(key), value, hashSeed, this.versions.next(), times);
    this.meter.beginWrite(request);
    return request;
  }

  /** Records of a bounded store have times, also those that never expire. */
  protected timesOf(expiry: Expiry | undefined): Expiry | undefined {
    return this.evictor === undefined ? expiry : (expiry ?? NEVER);
  }

  protected end(request: Request): void {
    this.attachment.exit();
    this.requests.give(request);
  }
}

function foundBytes({ found, contentAt, contentBytes }: Request): Uint8Array {
  return found.u8.subarray(contentAt, contentAt + contentBytes);
}
