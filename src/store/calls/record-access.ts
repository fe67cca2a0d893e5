import { StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_VERSION,
  type Index,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Meter } from '../../pool/clients/meter.ts';
import { bytesBound, CODEC_STATE } from '../../records/codec.ts';
import { type Expiry, NEVER } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { ExpiryOptions, Key, Value } from '../api.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { BoundedStore } from '../eviction/bounded-store.ts';
import { addsKeys, countable, Evictor, withoutNewKeys } from '../eviction/evictor.ts';
import type { NearSettings } from '../near/near-cache.ts';
import { NearReads } from '../near/near-reads.ts';
import { provingIndex } from '../near/near-settings.ts';
import { decodeValue } from '../values.ts';
import { expiryOf, type Lifetime } from './expiry.ts';
import { FullPool, ReclaimProgress } from './full-pool.ts';
import type { Coding } from './result-builders.ts';

/**
 * How many idle requests are kept: more than a gateway has in flight. Making one takes longer than
 * a read.
 */
const KEPT_MAX = 1024;
/** Beyond this number only small ones are kept. */
const LARGE_KEPT_MAX = 256;
/** Scratch memory of the request that is kept for the next operation, and of further ones. */
const FIRST_KEPT_BYTES = 1024 * 1024;
const OTHERS_KEPT_BYTES = 256 * 1024;
const SMALL_KEPT_BYTES = 8 * 1024;

/** How a store was opened. */
export interface CallSettings extends Coding {
  name: string;
  /** Whether calls in flight on one key share verbs. */
  delegation?: boolean;
  /** Whether the calls may only read. */
  readOnly?: boolean | undefined;
  /** How long records live by default. */
  lifetime?: Lifetime | undefined;
  /** The near cache, if any. */
  near?: NearSettings | undefined;
}

/** Receives the value of the record that a call replaces or removes. */
export interface Taken {
  value: unknown;
}

/** Text that a write stores, and its key, for the near cache. */
interface OwnText {
  readonly key: string;
  readonly text: string;
}

/** Thrown to end a modification that changes nothing. */
export class Unchanged {}

/**
 * Finds, writes, changes and removes single records, for the calls of a store on any fabric. Enters
 * the pool for each operation, counts for a bounded store, and makes room when the pool is full.
 */
export class RecordAccess {
  readonly attachment: Attachment;
  readonly index: Index;
  readonly settings: CallSettings;
  readonly meter: Meter;
  /** Undefined unless the store has a bound. */
  readonly bounded: BoundedStore | undefined;
  /** Keeps the bound; a handle for reading has none, because it counts and evicts nothing. */
  readonly evictor: Evictor | undefined;
  /** Undefined unless the handle has a near cache. */
  readonly near: NearReads | undefined;
  /** Requests of operations that have ended, for the next ones. */
  readonly idle: Request[] = [];
  readonly #full: FullPool;
  /** Whether this handle has noted that the store may have records that expire. */
  #isTimed = false;
  /**
   * State of the generator of first versions, from which updates count on. It starts at random, so
   * that a key that is deleted and inserted again does not repeat a version that a client
   * remembers.
   */
  #versionState = (Math.random() * 2 ** 32) | 1;

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
    this.bounded = bounded;
    if (bounded && !settings.readOnly) {
      this.evictor = new Evictor(bounded, index, attachment, settings.name);
    }
    this.#full = new FullPool(attachment, index, settings.name, this.evictor);
    if (settings.near !== undefined) {
      const proving = provingIndex(settings.name, index, settings);
      const counted = this.evictor?.store;
      this.near = new NearReads(attachment, proving, settings.near, settings, counted);
    }
  }

  /** The version of a record that is inserted: 32 bits, by xorshift. */
  nextVersion(): number {
    let x = this.#versionState;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#versionState = x;
    return x >>> 0;
  }

  /** When a record that is written now expires. Raises SW_INVALID_ARGUMENT. */
  expiryOf(options: ExpiryOptions | undefined): Expiry | undefined {
    const { lifetime } = this.settings;
    if (options === undefined && lifetime === undefined) return undefined;
    return expiryOf(options, lifetime, this.attachment.pool.clock.now);
  }

  /** Records of a bounded store have times, also those that never expire. */
  timesOf(expiry: Expiry | undefined): Expiry | undefined {
    return this.evictor === undefined ? expiry : (expiry ?? NEVER);
  }

  /** Raises SW_READ_ONLY. */
  refuseWrite(): void {
    if (!this.settings.readOnly) return;
    const why = `store ${this.settings.name} was opened with readOnly: true`;
    throw new StepwellError('SW_READ_ONLY', why);
  }

  /** The key as the store has it, of which a namespace leaves out the prefix. */
  keyIn(key: Key): Key {
    const { namespace } = this.settings;
    return namespace === undefined ? key : namespace.key(key);
  }

  /** A request for an operation on one key. Raises SW_CLOSED and SW_INVALID_KEY. */
  requestTo(kind: 'read' | 'write', key: Key, valueBound = 0): Request {
    this.attachment.refuseClosed();
    this.attachment.pool.clock.refuseFault();
    const request = this.idle.pop() ?? this.index.newRequest();
    request.setKey(this.keyIn(key), this.index.records.seed, valueBound);
    if (kind === 'read') this.meter.beginRead(request.timing);
    else this.meter.beginWrite(request.timing);
    return request;
  }

  /** A read of one key, which notes the uses of it that near reads have not. */
  requestToRead(key: Key): Request {
    const request = this.requestTo('read', key);
    if (this.near !== undefined) request.uses += this.near.usesOf(key);
    return request;
  }

  /** The value that a search found; the near cache, if any, may keep it. */
  kept(key: Key, request: Request, value: unknown): unknown {
    return this.near === undefined ? value : this.near.keep(key, request, value);
  }

  noteAbsent(key: Key): undefined {
    this.near?.forget(key);
  }

  #requestToStore(key: Key, value: Value, expiry: Expiry | undefined): Request {
    this.attachment.refuseClosed();
    this.attachment.pool.clock.refuseFault();
    this.refuseWrite();
    const request = this.idle.pop() ?? this.index.newRequest();
    const { records } = this.index;
    const times = this.timesOf(expiry);
    records.encode(request, this.keyIn(key), value, this.nextVersion(), times);
    this.meter.beginWrite(request.timing);
    return request;
  }

  /** The operation that began with the request has ended. */
  give(request: Request): void {
    if (request.timing.startedAt !== 0) this.meter.end(request.timing);
    const others = this.idle.length;
    if (others >= KEPT_MAX) return;
    let most = SMALL_KEPT_BYTES;
    if (others === 0) most = FIRST_KEPT_BYTES;
    else if (others < LARGE_KEPT_MAX) most = OTHERS_KEPT_BYTES;
    if (request.mayBeKept(most)) this.idle.push(request);
  }

  /** Leaves the pool and gives the request back. */
  end(request: Request): void {
    this.attachment.exit();
    this.give(request);
  }

  /** Finds the key if its record has not expired; notes that it was used. */
  *searchLive(request: Request): Operation<boolean> {
    if (!(yield* this.index.search(request))) return this.isMiss();
    if (request.timesAt < 0 && this.evictor === undefined) return true;
    return yield* this.isLive(request);
  }

  /** Counts a miss, and returns false. */
  isMiss(): false {
    this.meter.countMiss();
    this.evictor?.store.ledger.countMiss();
    return false;
  }

  /** Whether the found record, which may have times, has not expired; notes that it was used. */
  *isLive(request: Request): Operation<boolean> {
    const { evictor } = this;
    const { records } = this.index;
    if (records.isExpired(request)) return this.isMiss();
    if (this.settings.readOnly) return true;
    evictor?.store.ledger.countHit();
    if (evictor?.store.evicts === true || records.slides(request)) {
      yield* records.touch(request);
    }
    return true;
  }

  /** Gathers the blocks of a long record, and verifies the checksum of a short one. */
  *foundValue(request: Request): Operation<unknown> {
    if (request.found.isChained) yield* this.index.records.complete(request);
    else this.index.records.check(request);
    return decodeValue(request, this.settings.values);
  }

  *store(
    key: Key,
    value: Value,
    condition: Condition,
    expiry: Expiry | undefined,
    expected = 0,
    taken?: Taken,
  ): Operation<Outcome> {
    const request = this.#requestToStore(key, value, expiry);
    const { evictor } = this;
    const own = this.near === undefined ? undefined : this.#ownText(key, value);
    try {
      return yield* evictor === undefined
        ? this.#writeNow(request, condition, expected, taken, own)
        : this.#writeBounded(request, condition, evictor, expected, taken, own);
    } finally {
      this.give(request);
    }
  }

  /** Text of a store whose reads return what was written; other values are decoded from it. */
  #ownText(key: Key, text: Value): OwnText | undefined {
    const { values } = this.settings;
    if (typeof key !== 'string' || typeof text !== 'string') return undefined;
    return values === 'auto' || values === 'utf8' ? { key, text } : undefined;
  }

  /** The version of the new record; undefined if the key does not have the expected one. */
  *replace(
    key: Key,
    expected: number,
    value: Value,
    expiry: Expiry | undefined,
  ): Operation<number | undefined> {
    const request = this.#requestToStore(key, value, expiry);
    const { evictor } = this;
    try {
      const outcome = yield* evictor === undefined
        ? this.#writeNow(request, IF_VERSION, expected)
        : this.#writeBounded(request, IF_VERSION, evictor, expected);
      return outcome === REFUSED ? undefined : request.record.version;
    } finally {
      this.give(request);
    }
  }

  *#writeBounded(
    request: Request,
    condition: Condition,
    evictor: Evictor,
    expected: number,
    taken?: Taken,
    own?: OwnText,
  ): Operation<Outcome> {
    evictor.refuseTooLarge(request);
    yield* evictor.lookIfStale();
    const mayBeShut = evictor.countsBytes || addsKeys(condition);
    const outcome =
      mayBeShut && evictor.isShut(request, false)
        ? yield* this.#writeToShut(request, condition, evictor, expected, taken, own)
        : yield* this.#writeNow(request, countable(condition), expected, taken, own);
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
    taken: Taken | undefined,
    own: OwnText | undefined,
  ): Operation<Outcome> {
    if (condition !== IF_ABSENT && !evictor.countsBytes) {
      const when = withoutNewKeys(condition);
      const outcome = yield* this.#writeNow(request, when, expected, taken, own);
      if (outcome !== REFUSED) return outcome;
    }
    if (yield* this.#refuses(request, condition, evictor)) throw evictor.shut();
    return yield* this.#writeNow(request, countable(condition), expected, taken, own);
  }

  /**
   * Whether a shut store refuses the write: not when it replaces a record, which may have expired,
   * by one that is no longer; nor when its condition stores nothing.
   */
  *#refuses(request: Request, condition: Condition, evictor: Evictor): Operation<boolean> {
    const isThere = yield* inSection(this.attachment, () => this.index.search(request));
    const isLive = isThere && !this.index.records.isExpired(request);
    if (isLive ? condition === IF_ABSENT : !addsKeys(condition)) return false;
    return yield* evictor.isStillShut(request, isThere);
  }

  *#writeNow(
    request: Request,
    condition: Condition,
    expected: number,
    taken?: Taken,
    own?: OwnText,
  ): Operation<Outcome> {
    for (let tried: ReclaimProgress | undefined; ; ) {
      try {
        yield* this.attachment.enter();
        try {
          // In a bounded store even records that never expire have times.
          if (request.record.expiry !== undefined && request.record.expiry !== NEVER)
            yield* this.#noteTimed();
          const outcome = yield* this.index.write(request, condition, expected);
          if (own !== undefined) this.near?.keepWritten(own.key, own.text, request);
          if (this.evictor !== undefined && outcome !== REFUSED) {
            yield* this.#count(request, outcome, this.evictor);
          }
          const found = outcome === REPLACED || (outcome === REFUSED && request.found.at >= 0);
          if (taken !== undefined && found) taken.value = yield* this.foundValue(request);
          if (tried !== undefined) this.#full.ended(tried);
          return outcome;
        } finally {
          this.attachment.exit();
        }
      } catch (error) {
        tried ??= new ReclaimProgress('write', request);
        yield* this.#full.makeRoom(error, tried);
      }
    }
  }

  /** After a write of a bounded store, in its section. */
  *#count(request: Request, outcome: Outcome, evictor: Evictor): Operation<void> {
    yield* evictor.written(request);
    const inherits = evictor.store.evicts && outcome === REPLACED && request.timesAt >= 0;
    if (inherits) yield* this.index.records.inheritUses(request);
  }

  /** Before the first record that expires: the store may have some from now on. */
  *#noteTimed(): Operation<void> {
    if (this.#isTimed) return;
    yield* this.attachment.pool.catalog.noteTimed(this.index.records.catalog);
    this.#isTimed = true;
  }

  /** An index that writes in order to remove may meet a full pool. */
  *remove(key: Key, expected?: number, taken?: Taken): Operation<boolean> {
    this.refuseWrite();
    const request = this.requestTo('write', key);
    try {
      for (let tried: ReclaimProgress | undefined; ; ) {
        try {
          return yield* this.#removeNow(request, expected, taken);
        } catch (error) {
          tried ??= new ReclaimProgress('deletion');
          yield* this.#full.makeRoom(error, tried);
        }
      }
    } finally {
      this.give(request);
    }
  }

  /**
   * Removes most records that callers can see, unless a bound counts each, and returns how many.
   * Over a network it removes none, because many single removals in flight together are as fast.
   */
  *clearMost(): Operation<number> {
    const { attachment, evictor, index } = this;
    let removed = 0;
    if (evictor !== undefined || attachment.width > 1) return removed;
    const clearing = index.clearing?.(CODEC_STATE);
    let tried: ReclaimProgress | undefined;
    while (clearing && !clearing.done) {
      try {
        removed += yield* inSection(attachment, () => clearing.next());
        tried = undefined;
      } catch (error) {
        tried ??= new ReclaimProgress('deletion');
        yield* this.#full.makeRoom(error, tried);
      }
    }
    return removed;
  }

  *#removeNow(
    request: Request,
    expected: number | undefined,
    taken: Taken | undefined,
  ): Operation<boolean> {
    const { attachment, evictor } = this;
    yield* attachment.enter();
    try {
      const removed = yield* this.index.remove(request, expected);
      if (evictor !== undefined) {
        evictor.removed(request);
        yield* evictor.store.ledger.publish();
      }
      if (taken !== undefined && removed) taken.value = yield* this.foundValue(request);
      return removed;
    } finally {
      attachment.exit();
    }
  }

  /**
   * Replaces the value that is found by the one that `compute` makes, and gives the request back.
   * An error of `compute` ends it; `Unchanged` does so without an error. A store that is full
   * refuses a key that `compute` would add.
   */
  *modify(
    request: Request,
    expiry: Expiry | undefined,
    compute: (present: boolean) => void,
  ): Operation<void> {
    const { evictor } = this;
    let shut: StepwellError | undefined;
    let mayBeShut = true;
    let tried: ReclaimProgress | undefined;
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
      for (let done = false; !done; ) {
        try {
          yield* this.#modifyNow(request, expiry, change);
          done = true;
        } catch (error) {
          if (error instanceof Unchanged) return;
          const isShut = evictor !== undefined && shut !== undefined && error === shut;
          // Memory is no help: the store evicts nothing.
          if (isShut && (yield* this.#refuses(request, ALWAYS, evictor))) throw error;
          tried ??= new ReclaimProgress('write', request);
          if (isShut) mayBeShut = false;
          else yield* this.#full.makeRoom(error, tried);
        }
      }
      if (evictor !== undefined) yield* evictor.settle(request);
    } finally {
      if (tried !== undefined) this.#full.ended(tried);
      this.give(request);
    }
  }

  *#modifyNow(
    request: Request,
    expiry: Expiry | undefined,
    compute: (present: boolean) => void,
  ): Operation<void> {
    const { attachment, evictor } = this;
    yield* attachment.enter();
    try {
      if (expiry !== undefined) yield* this.#noteTimed();
      const outcome = yield* this.index.modify(request, compute);
      if (evictor !== undefined) yield* this.#count(request, outcome, evictor);
    } finally {
      attachment.exit();
    }
  }

  /** In `compute`: the new value, for which there was no room when the key was encoded. */
  put(request: Request, key: Key, value: Value, expiry: Expiry | undefined, codec?: number): void {
    request.setKey(key, this.index.records.seed, bytesBound(value));
    request.record.expiry = this.timesOf(expiry);
    this.index.records.encodeValue(request, value, this.nextVersion(), codec);
  }
}
