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
import type { Expiry } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Encoding, Entry, ExpiryOptions, Key, Value } from '../api.ts';
import { checkCallback, checkIncrement, versionOf } from './arguments.ts';
import type { Attachment } from './attachment.ts';
import { decodeValue } from './decoding.ts';
import { expiryOf, type Lifetime } from './expiry.ts';
import { FirstVersions } from './first-versions.ts';
import { FullPool } from './full-pool.ts';
import { checkRange, parseInteger } from './integers.ts';
import { IdleRequests } from './requests.ts';
import type { WriteKind } from './vain-sweeps.ts';

/** Bytes of a counter in decimal digits, with room. */
const COUNTER_BYTES = 32;

/** How a store was opened. */
export interface CallSettings {
  name: string;
  keys: Encoding;
  values: Encoding;
  /** Whether calls in flight on one key share verbs. */
  delegation: boolean;
  /** How long records live whose writes do not say. */
  lifetime?: Lifetime | undefined;
}

/** Where a call that wants it puts the value of a record that it replaces or removes. */
export interface Taken<V> {
  value: V | undefined;
}

/**
 * The calls of a store on one key, for every fabric. Keys and values are encoded before the first
 * verb: afterwards the caller may change their bytes. See api.ts for what each call does.
 */
export class KeyCalls<V extends Value> {
  protected readonly attachment: Attachment;
  protected readonly index: Index;
  protected readonly settings: CallSettings;
  protected readonly requests: IdleRequests;
  protected readonly versions = new FirstVersions();
  readonly #full: FullPool;
  /** Whether this handle has noted that the store may have records that expire. */
  #isTimed = false;

  constructor(attachment: Attachment, index: Index, settings: CallSettings) {
    this.attachment = attachment;
    this.index = index;
    this.settings = settings;
    this.requests = new IdleRequests(index);
    this.#full = new FullPool(attachment, index);
  }

  *get(key: Key): Operation<V | undefined> {
    const request = this.requestFor(key);
    yield* this.attachment.enter();
    try {
      if (!(yield* this.searchLive(request))) return undefined;
      return yield* this.foundValue(request);
    } finally {
      this.end(request);
    }
  }

  *getEntry(key: Key): Operation<Entry<V> | undefined> {
    const request = this.requestFor(key);
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
    const request = this.requestFor(key);
    yield* this.attachment.enter();
    try {
      return yield* this.searchLive(request);
    } finally {
      this.end(request);
    }
  }

  *read<T>(key: Key, use: (bytes: Uint8Array) => T): Operation<T | undefined> {
    this.attachment.refuseClosed();
    checkCallback(use);
    const request = this.requestFor(key);
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

  *set(key: Key, value: Value, options?: ExpiryOptions): Operation<void> {
    yield* this.store(key, value, ALWAYS, this.expiryOf(options));
  }

  *insert(key: Key, value: Value, options?: ExpiryOptions): Operation<boolean> {
    return (yield* this.store(key, value, IF_ABSENT, this.expiryOf(options))) !== REFUSED;
  }

  *update(key: Key, value: Value, options?: ExpiryOptions): Operation<boolean> {
    return (yield* this.store(key, value, IF_PRESENT, this.expiryOf(options))) !== REFUSED;
  }

  /** The version of the new record; undefined if the key does not have the expected one. */
  protected *replace(
    key: Key,
    expected: number,
    value: Value,
    expiry: Expiry | undefined,
  ): Operation<number | undefined> {
    if (expiry !== undefined) yield* this.#noteTimed();
    const request = this.#requestToStore(key, value, expiry);
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
    const sum = yield* this.#add(key, BigInt(by), typeof by === 'number', this.expiryOf(options));
    return typeof by === 'number' ? Number(sum) : sum;
  }

  /** When a record that is written now expires. Raises SW_INVALID_ARGUMENT. */
  protected expiryOf(options: ExpiryOptions | undefined): Expiry | undefined {
    const { lifetime } = this.settings;
    if (options === undefined && lifetime === undefined) return undefined;
    return expiryOf(options, lifetime, this.attachment.pool.clock.now);
  }

  /** Before the first record that expires: the store may have some from now on. */
  *#noteTimed(): Operation<void> {
    if (this.#isTimed) return;
    yield* this.attachment.pool.catalog.noteTimed(this.index.catalog);
    this.#isTimed = true;
  }

  /** Finds the key if its record has not expired; one that slides begins its time anew. */
  protected *searchLive(request: Request): Operation<boolean> {
    if (!(yield* this.index.search(request))) return false;
    return request.timesAt < 0 || (yield* this.isLive(request));
  }

  /** Whether the found record counts, which has times. */
  protected *isLive(request: Request): Operation<boolean> {
    const { records } = this.index;
    if (records.isExpired(request)) return false;
    if (records.slides(request)) yield* this.index.touch(request);
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
    if (expiry !== undefined) yield* this.#noteTimed();
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
    for (let remedy = 0; ; ) {
      try {
        return yield* this.#writeOnce(request, condition, expected, taken);
      } catch (error) {
        remedy = yield* this.relieve(error, remedy, 'write');
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
      const outcome = yield* this.index.write(request, condition, expected);
      const found = outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0);
      if (taken !== undefined && found) taken.value = yield* this.foundValue(request);
      return outcome;
    } finally {
      this.attachment.exit();
    }
  }

  /** An index that writes in order to remove may meet a full pool. */
  *#remove(key: Key, expected?: number, taken?: Taken<V>): Operation<boolean> {
    const request = this.requestFor(key);
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

  *#removeOnce(
    request: Request,
    expected: number | undefined,
    taken: Taken<V> | undefined,
  ): Operation<boolean> {
    yield* this.attachment.enter();
    try {
      const removed = yield* this.index.remove(request, expected);
      if (taken !== undefined && removed) taken.value = yield* this.foundValue(request);
      return removed;
    } finally {
      this.attachment.exit();
    }
  }

  *#add(key: Key, by: bigint, safe: boolean, expiry: Expiry | undefined): Operation<bigint> {
    const request = this.requestFor(key, COUNTER_BYTES);
    const { records } = this.index;
    let sum = 0n;
    const compute = (present: boolean) => {
      const old = present ? parseInteger(decodeValue(request, 'utf8') as string) : 0n;
      sum = checkRange(old + by, safe);
      request.expiry = present ? request.foundExpiry : expiry;
      records.encodeValue(request, sum.toString(), this.versions.next());
    };
    if (expiry !== undefined) yield* this.#noteTimed();
    try {
      for (let remedy = 0; ; ) {
        try {
          yield* this.#modifyOnce(request, compute);
          return sum;
        } catch (error) {
          remedy = yield* this.relieve(error, remedy, 'write');
        }
      }
    } finally {
      this.requests.give(request);
    }
  }

  *#modifyOnce(request: Request, compute: (present: boolean) => void): Operation<void> {
    yield* this.attachment.enter();
    try {
      yield* this.index.modify(request, compute);
    } finally {
      this.attachment.exit();
    }
  }

  /** Does what can be done about a full pool; the next remedy's number, or the error again. */
  protected relieve(error: unknown, remedy: number, kind: WriteKind): Operation<number> {
    return this.#full.relieve(error, remedy, kind);
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

  protected requestFor(key: Key, valueBound = 0): Request {
    this.attachment.refuseClosed();
    const request = this.requests.take();
    request.setKey(key, this.index.hashSeed, valueBound);
    return request;
  }

  #requestToStore(key: Key, value: Value, expiry: Expiry | undefined): Request {
    this.attachment.refuseClosed();
    const request = this.requests.take();
    const { hashSeed, records } = this.index;
    records.encode(request, key, value, hashSeed, this.versions.next(), expiry);
    return request;
  }

  protected end(request: Request): void {
    this.attachment.exit();
    this.requests.give(request);
  }
}

function foundBytes({ found, contentAt, contentBytes }: Request): Uint8Array {
  return found.u8.subarray(contentAt, contentAt + contentBytes);
}
