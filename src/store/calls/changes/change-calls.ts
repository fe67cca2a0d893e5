import { StepwellError } from '../../../errors.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { clientWord, isGone } from '../../../pool/clients/client-word.ts';
import { bytesBound, CODEC_STATE, checkValue } from '../../../records/codec.ts';
import type { Expiry } from '../../../records/times.ts';
import type { Operation } from '../../../verbs/index.ts';
import type {
  BoundedIncrement,
  BoundedOptions,
  ExpiryOptions,
  Key,
  Value,
  WriteOptions,
} from '../../api.ts';
import { checkIncrement, checkOptions, counterBoundsIn } from '../arguments.ts';
import { storedValue } from '../decoding.ts';
import { EXPIRY_OPTIONS, expiryIn } from '../expiry.ts';
import { ExpiryCalls } from '../expiry-calls.ts';
import { keyBytes } from '../ranges/key-range.ts';
import type { CopiedRecord } from './copies.ts';
import type { Decide, StateLook } from './decide.ts';
import { parseState, stateKey } from './state.ts';

/** Each further one means that a decision has asked about another client. */
const QUESTIONS_MAX = 1000;

/** What ends a modification before it stores anything. */
class Left {
  readonly why: 'asks' | 'keeps' | 'removes';

  constructor(why: Left['why']) {
    this.why = why;
  }
}

/** The calls of a store that make a new value out of the one that is there, atomically. */
export class ChangeCalls<V> extends ExpiryCalls<V> {
  *swap(
    key: Key,
    value: unknown,
    options: Omit<WriteOptions, 'previous' | 'when'> = {},
  ): Operation<V | undefined> {
    return (yield* this.write(key, value, { ...options, previous: true })).previous;
  }

  *append(key: Key, value: Value, options?: ExpiryOptions): Operation<number> {
    this.attachment.refuseClosed();
    const { name, values } = this.settings;
    if (typeof values !== 'string') {
      const why = `store ${name} keeps values in the format ${values.name}`;
      throw new StepwellError('SW_UNSUPPORTED', `${why}: append is for text and bytes`);
    }
    checkValue(value);
    const own = typeof value === 'string' ? value : new Uint8Array(value);
    const expiry = this.expiryOf(options);
    const request = this.requestToChange(key);
    const again = keyBytes(this.keyIn(key));
    let length = 0;
    yield* this.modified(request, expiry, (present) => {
      const old = present ? storedValue(request, 'auto') : '';
      const expires = present ? request.foundExpiry : expiry;
      const joined = present ? join(old, own) : own;
      length = Buffer.byteLength(joined);
      this.#put(request, again, joined, expires);
    });
    return length;
  }

  *incrementWithin(
    key: Key,
    by: number | bigint,
    options: BoundedOptions<number | bigint>,
  ): Operation<BoundedIncrement<number | bigint>> {
    this.attachment.refuseClosed();
    checkIncrement(by);
    checkOptions(options, ['min', 'max', ...EXPIRY_OPTIONS]);
    const { lifetime } = this.settings;
    const { clock } = this.attachment.pool;
    const expiry = expiryIn(options, lifetime, clock.now);
    const bounds = counterBoundsIn(options, by);
    const isNumber = typeof by === 'number';
    const outcome = yield* this.add(key, BigInt(by), isNumber, expiry, bounds);
    const value = isNumber ? Number(outcome.sum) : outcome.sum;
    return { applied: outcome.applied, value, ttlMs: Math.max(0, outcome.expiresAt - clock.now()) };
  }

  /**
   * Changes a state that helpers keep in the store, atomically: `decide` says what it is to become.
   * It may run several times, and must do nothing else. Such records are hidden from walks.
   */
  *changeState<T>(name: string, decide: Decide<T>): Operation<T> {
    const key = stateKey(name);
    const gone = new Map<number, boolean>();
    for (let attempt = 0; attempt < QUESTIONS_MAX; attempt++) {
      const asked = new Set<number>();
      const outcome = yield* this.#tryChange(key, decide, gone, asked);
      if (outcome !== undefined) return outcome.result;
      const { membership } = this.attachment.pool;
      for (const client of asked) gone.set(client, yield* isGone(membership, client));
    }
    throw new StepwellError('SW_CONTENTION', `other clients change ${name} again and again`);
  }

  /** Undefined when it must be tried again, once it is known which of the `asked` are gone. */
  *#tryChange<T>(
    key: string,
    decide: Decide<T>,
    gone: ReadonlyMap<number, boolean>,
    asked: Set<number>,
  ): Operation<{ result: T } | undefined> {
    const { clock, membership } = this.attachment.pool;
    const self = clientWord(membership);
    const isClientGone = (client: number) => {
      if (client === self) return false;
      if (!gone.has(client)) asked.add(client);
      return gone.get(client) ?? false;
    };
    const look: StateLook = { now: clock.now(), self, isGone: isClientGone };
    const request = this.requestToChange(key);
    const outcome: { result?: T } = {};
    let version = 0;
    try {
      yield* this.modified(request, FOREVER, (present) => {
        asked.clear();
        version = request.foundVersion;
        const change = decide(present ? parseState(request, key) : undefined, look);
        if (asked.size > 0) throw new Left('asks');
        outcome.result = change.result;
        if (change.next === undefined) throw new Left('keeps');
        if (change.next === null) throw new Left(present ? 'removes' : 'keeps');
        const next = JSON.stringify(change.next);
        this.#put(request, this.keyIn(key), next, expiryOf(change), CODEC_STATE);
      });
    } catch (left) {
      if (!(left instanceof Left)) throw left;
      if (left.why === 'asks') return undefined;
      if (left.why === 'removes' && !(yield* this.removeVersion(key, version))) {
        return undefined;
      }
    }
    return { result: outcome.result as T };
  }

  /** Stores records as another store has them, with their kinds and times. */
  *putCopies(copies: readonly CopiedRecord[]): Operation<void> {
    this.attachment.refuseClosed();
    yield* this.attachment.each(copies, this.attachment.width, (copy) => this.#putCopy(copy));
  }

  *#putCopy({ key, value, codec, expiry }: CopiedRecord): Operation<void> {
    const request = this.requestToChange(key);
    yield* this.modified(request, expiry, () => {
      this.#put(request, key, value, expiry, codec);
    });
  }

  /** The request's value from now on, for which there was no room when its key was encoded. */
  #put(request: Request, key: Key, value: Value, expiry: Expiry | undefined, codec?: number): void {
    request.setKey(key, this.index.hashSeed, bytesBound(value));
    request.expiry = this.timesOf(expiry);
    this.index.records.encodeValue(request, value, this.versions.next(), codec);
  }
}

function expiryOf({ keepUntil }: { keepUntil?: number }): Expiry | undefined {
  if (keepUntil === undefined) return undefined;
  return { deadline: Math.ceil(keepUntil), sliding: false };
}

/** Notes that the store may have records that expire. */
const FOREVER: Expiry = { deadline: 0, sliding: false };

/** Text if both are. */
function join(old: Value, more: Value): Value {
  if (typeof old === 'string' && typeof more === 'string') return old + more;
  const parts = [old, more].map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  return new Uint8Array(Buffer.concat(parts));
}
