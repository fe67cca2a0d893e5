import type { Request } from '../../indexes/substrates/request.ts';
import { Batch, type Operation } from '../../verbs/index.ts';
import type { ExpiryOptions, Key } from '../api.ts';
import { checkEntries, checkEntry, checkKeys, maxBytesIn } from './arguments.ts';
import { ChangeCalls } from './changes/change-calls.ts';

/** Keys that one operation searches for in doorbells that they share. */
const KEYS_PER_SEARCH = 32;
/** Searches of one call in flight together, of the operations that may be. */
const SEARCHES_SHARE = 4;
/** Searches that are kept for the next calls: as many as one call has in flight. */
const KEPT_SEARCHES = 32;

/** What a search for some of the keys of a call needs. */
class Searching {
  readonly requests: Request[] = [];
  readonly batch = new Batch();
  readonly found: boolean[] = [];
}

/** How many more bytes of values a call wants; the first one comes however long it is. */
interface Budget {
  bytes: number;
}

/**
 * The calls of a store on many keys. Where verbs take time the operations of a call are in flight
 * together; elsewhere they run one behind the other.
 */
export class ManyCalls<V> extends ChangeCalls<V> {
  readonly #idle: Searching[] = [];

  *getMany(
    keys: readonly Key[],
    options: { maxBytes?: number } = {},
  ): Operation<(V | undefined)[]> {
    this.attachment.refuseClosed();
    checkKeys(keys);
    const maxBytes = maxBytesIn(options);
    if (maxBytes !== Number.POSITIVE_INFINITY) return yield* this.#getBounded(keys, maxBytes);
    if (this.settings.delegation) return yield* this.#getEach(keys);
    const { width } = this.attachment;
    const own = width === 1 ? keys : [...keys];
    const values: (V | undefined)[] = new Array(own.length);
    const firsts: number[] = [];
    for (let first = 0; first < own.length; first += KEYS_PER_SEARCH) firsts.push(first);
    const together = Math.max(1, width / SEARCHES_SHARE);
    yield* this.attachment.each(firsts, together, (first) => this.#getSome(own, first, values));
    return values;
  }

  /** The values of the first keys: as many as have `maxBytes` together, or one that has more. */
  *#getBounded(keys: readonly Key[], maxBytes: number): Operation<(V | undefined)[]> {
    const own = [...keys];
    const values: (V | undefined)[] = [];
    const budget = { bytes: maxBytes };
    for (let first = 0; first < own.length && budget.bytes >= 0; first += KEYS_PER_SEARCH) {
      yield* this.#getSome(own, first, values, budget);
    }
    return values;
  }

  /** Doorbells that keys share would pass by the calls in flight that these searches can share. */
  *#getEach(keys: readonly Key[]): Operation<(V | undefined)[]> {
    const values: (V | undefined)[] = new Array(keys.length);
    yield* this.attachment.each([...keys.entries()], this.attachment.width, (entry) =>
      this.#getInto(values, entry),
    );
    return values;
  }

  *#getInto(values: (V | undefined)[], [i, key]: [number, Key]): Operation<void> {
    values[i] = yield* this.get(key);
  }

  /** The values of some keys, from number `first` on; with a budget, as long as that lasts. */
  *#getSome(
    keys: readonly Key[],
    first: number,
    values: (V | undefined)[],
    budget?: Budget,
  ): Operation<void> {
    const count = Math.min(KEYS_PER_SEARCH, keys.length - first);
    const searching = this.#idle.pop() ?? new Searching();
    const { requests, batch, found } = searching;
    this.#setKeys(requests, keys, first, count);
    yield* this.attachment.enter();
    let given = 0;
    try {
      yield* this.index.searchMany(requests, count, batch, found);
      for (let i = 0; i < count; i++) {
        const request = requests[i];
        const isFound = found[i]
          ? this.countsAnyhow(request) || (yield* this.isLive(request))
          : this.isMiss();
        if (budget !== undefined && isFound) budget.bytes -= request.contentBytes;
        if (budget !== undefined && budget.bytes < 0 && first + i > 0) return;
        values[first + i] = isFound ? yield* this.foundValue(request) : undefined;
        // One by one: a value of many blocks was put together in memory of its own.
        this.requests.give(request);
        given++;
      }
    } finally {
      this.attachment.exit();
      while (given < count) this.requests.give(requests[given++]);
      // A search that is kept must not keep what the idle requests have no room for.
      requests.length = 0;
      if (this.#idle.length < KEPT_SEARCHES) this.#idle.push(searching);
    }
  }

  #setKeys(requests: Request[], keys: readonly Key[], first: number, count: number): void {
    touchKeys(keys, first, count);
    this.meter.countReads(count);
    for (let i = 0; i < count; i++) {
      requests[i] = this.requests.take();
      requests[i].setKey(this.keyIn(keys[first + i]), this.index.hashSeed);
    }
  }

  /** An entry that is refused ends it; entries before may have been stored. */
  *setMany(entries: Iterable<readonly [Key, unknown]>, options?: ExpiryOptions): Operation<void> {
    this.attachment.refuseClosed();
    checkEntries(entries);
    this.expiryOf(options);
    const { width } = this.attachment;
    const round = new Map<string, readonly [Key, unknown]>();
    for (const entry of entries) {
      checkEntry(entry);
      if (width === 1) {
        yield* this.set(entry[0], entry[1], options);
        continue;
      }
      const name = nameOf(entry[0]);
      // Operations in flight have no order: a key that comes again waits for those before it.
      if (round.size === width || round.has(name)) yield* this.#setRound(round, options);
      round.set(name, entry);
    }
    yield* this.#setRound(round, options);
  }

  *#setRound(
    round: Map<string, readonly [Key, unknown]>,
    options: ExpiryOptions | undefined,
  ): Operation<void> {
    const entries = [...round.values()];
    round.clear();
    yield* this.attachment.each(entries, this.attachment.width, ([key, value]) =>
      this.set(key, value, options),
    );
  }

  *deleteMany(keys: readonly Key[]): Operation<number> {
    this.attachment.refuseClosed();
    checkKeys(keys);
    const count = { removed: 0 };
    yield* this.attachment.each([...keys], this.attachment.width, (key) =>
      this.#deleteCounted(key, count),
    );
    return count.removed;
  }

  *#deleteCounted(key: Key, count: { removed: number }): Operation<void> {
    if (yield* this.delete(key)) count.removed++;
  }
}

/** Two keys are the same when their bytes are. What is no key at all is refused later. */
function nameOf(key: Key): string {
  if (typeof key === 'string') return Buffer.from(key).toString('latin1');
  if (!(key instanceof Uint8Array)) return '';
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
}

/** Reads a bit of every key first, so that the cache misses of strings that lie apart overlap. */
function touchKeys(keys: readonly Key[], first: number, count: number): number {
  let sum = 0;
  for (let i = first; i < first + count; i++) {
    const key = keys[i];
    if (typeof key === 'string') sum += key.charCodeAt(0) | 0;
  }
  return sum;
}
