import { StepwellError } from '../../errors.ts';
import {
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  type Outcome,
  REFUSED,
} from '../../indexes/contract.ts';
import type { Expiry } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type {
  ExpiryOptions,
  Key,
  RecordMetadata,
  ReplaceOptions,
  Value,
  WriteOptions,
  WriteResult,
} from '../api.ts';
import { checkOptions, conditionOf, invalid, shown, versionOf } from './arguments.ts';
import { storedValue } from './decoding.ts';
import { EXPIRY_OPTIONS, expiryIn } from './expiry.ts';
import { KeyCalls, type Taken } from './key-calls.ts';

const REPLACE_OPTIONS = ['keepTtl', ...EXPIRY_OPTIONS];
const WRITE_OPTIONS = ['when', 'previous', ...REPLACE_OPTIONS];

/** Each failed attempt means that another client has changed the key. */
const ATTEMPTS_MAX = 1000;

/** A record as it was found, to be replaced as long as no client changes it. */
interface Seen {
  readonly version: number;
  readonly expiry: Expiry | undefined;
  readonly expiresAt: number;
  /** Only where it was asked for. */
  readonly value: Value;
}

/** The calls of a store that are about when a record expires. */
export class ExpiryCalls<V> extends KeyCalls<V> {
  *write(key: Key, given: unknown, options: WriteOptions = {}): Operation<WriteResult<V>> {
    this.attachment.refuseClosed();
    const keepTtl = keepsTtl(options, WRITE_OPTIONS);
    const value = this.encoded(given);
    const { condition, previous } = conditionOf(options);
    const expiry = this.#expiryIn(options);
    const taken: Taken<V> | undefined = previous ? { value: undefined } : undefined;
    const outcome = yield* keepTtl
      ? this.#storeKeeping(kept(key), kept(value), condition, expiry, taken)
      : this.store(key, value, condition, expiry, 0, taken);
    return { written: outcome !== REFUSED, previous: taken?.value };
  }

  /** The record that is replaced says when the new one expires. */
  *#storeKeeping(
    key: Key,
    value: Value,
    condition: Condition,
    expiry: Expiry | undefined,
    taken: Taken<V> | undefined,
  ): Operation<Outcome> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const seen = yield* this.#look(key, false);
      const isRefused = condition === (seen ? IF_ABSENT : IF_PRESENT);
      if (isRefused) return yield* this.store(key, value, condition, expiry, 0, taken);
      const outcome = yield* seen
        ? this.store(key, value, IF_VERSION, seen.expiry, seen.version, taken)
        : this.store(key, value, IF_ABSENT, expiry, 0, taken);
      if (outcome !== REFUSED) return outcome;
    }
    throw changedAgain();
  }

  *compareAndSet(
    key: Key,
    version: number,
    given: unknown,
    options?: ReplaceOptions,
  ): Operation<number | undefined> {
    this.attachment.refuseClosed();
    const value = this.encoded(given);
    const expected = versionOf(version);
    if (options === undefined || !keepsTtl(options, REPLACE_OPTIONS)) {
      return yield* this.replace(key, expected, value, this.#expiryIn(options));
    }
    const [own, data] = [kept(key), kept(value)];
    // Also another expiry of the same value is another version.
    const seen = yield* this.#look(own, false);
    if (seen?.version !== expected) return undefined;
    return yield* this.replace(own, expected, data, seen.expiry);
  }

  *expire(key: Key, options?: ExpiryOptions): Operation<boolean> {
    this.attachment.refuseClosed();
    const expiry = this.expiryOf(options);
    const own = kept(key);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const seen = yield* this.#look(own, true);
      if (seen === undefined) return false;
      const outcome = yield* this.store(own, seen.value, IF_VERSION, expiry, seen.version);
      if (outcome !== REFUSED) return true;
    }
    throw changedAgain();
  }

  *ttl(key: Key): Operation<number | undefined> {
    const seen = yield* this.#look(key, false);
    if (seen === undefined) return undefined;
    return Math.max(0, seen.expiresAt - this.attachment.pool.clock.now());
  }

  *metadata(key: Key): Operation<RecordMetadata | undefined> {
    const seen = yield* this.#look(key, false);
    return seen && { version: seen.version, expiresAt: seen.expiresAt };
  }

  /** When a record that is written now expires, of options with `keepTtl` beside that. */
  #expiryIn(options: ReplaceOptions = {}): Expiry | undefined {
    return expiryIn(options, this.settings.lifetime, this.attachment.pool.clock.now);
  }

  /** The key's record, if it has not expired. */
  *#look(key: Key, withValue: boolean): Operation<Seen | undefined> {
    const request = this.requestToRead(key);
    yield* this.attachment.enter();
    try {
      if (!(yield* this.index.search(request))) return undefined;
      if (this.index.records.isExpired(request)) return undefined;
      if (withValue) yield* this.complete(request);
      // Decoded by its own codec it is encoded the same again.
      const value = withValue ? storedValue(request, 'auto') : '';
      const { foundVersion: version, foundExpiry: expiry, foundExpiresAt: expiresAt } = request;
      return { version, expiry, expiresAt, value };
    } finally {
      this.end(request);
    }
  }
}

/** For a later round trip: the caller may use its buffer again as soon as the call has begun. */
function kept<C extends Key | Value>(content: C): C {
  return content instanceof Uint8Array ? (new Uint8Array(content) as C) : content;
}

/** Raises SW_INVALID_ARGUMENT. */
function keepsTtl(options: ReplaceOptions, names: readonly string[]): boolean {
  checkOptions(options, names);
  const { keepTtl = false } = options;
  if (typeof keepTtl === 'boolean') return keepTtl;
  throw invalid(`keepTtl is true or false: ${shown(keepTtl)}`);
}

function changedAgain(): StepwellError {
  return new StepwellError('SW_CONTENTION', 'other clients change the key again and again');
}
