import { ALWAYS } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { Batch, type Operation } from '../../verbs/index.ts';
import type { ExpiryOptions, Key } from '../api.ts';
import { checkEntries, checkEntry, checkKeys, maxBytesIn } from '../arguments.ts';
import { UNPROVEN } from '../near/near-reads.ts';
import { encoded } from '../values.ts';
import type { RecordAccess } from './record-access.ts';

/** How many keys one operation searches for with shared doorbells. */
const KEYS_PER_SEARCH = 32;
/** A call has at most width / SEARCHES_SHARE searches in flight. */
const SEARCHES_SHARE = 4;
/** How many idle searches are kept for later calls. */
const KEPT_SEARCHES = 32;

/** Reusable state of a search for some keys of a call. */
class Searching {
  readonly requests: Request[] = [];
  readonly batch = new Batch();
  readonly found: boolean[] = [];
}

/** Bytes of values that a call may still return. It always returns the first value. */
interface Budget {
  bytes: number;
}

/**
 * The calls of a store on many keys. Over a network the operations of a call are in flight
 * together; on shared memory they run one after another.
 */
export class ManyKeys<V> {
  readonly #access: RecordAccess;
  readonly #idle: Searching[] = [];

  constructor(access: RecordAccess) {
    this.#access = access;
  }

  *get(keys: readonly Key[], options: { maxBytes?: number } = {}): Operation<(V | undefined)[]> {
    const { attachment, settings } = this.#access;
    attachment.refuseClosed();
    checkKeys(keys);
    const maxBytes = maxBytesIn(options);
    if (maxBytes !== Number.POSITIVE_INFINITY) return yield* this.#getBounded(keys, maxBytes);
    const { width } = attachment;
    const values: (V | undefined)[] = new Array(keys.length);
    if (settings.delegation) {
      // Shared doorbells would bypass delegation, by which a search joins a call in flight.
      yield* attachment.each([...keys.entries()], width, (entry) => this.#getInto(values, entry));
      return values;
    }
    const own = width === 1 ? keys : [...keys];
    if (this.#access.near === undefined) yield* this.#search(own, values);
    else yield* this.#getNear(own, values);
    return values;
  }

  *#search(keys: readonly Key[], values: (V | undefined)[]): Operation<void> {
    const { attachment } = this.#access;
    const firsts: number[] = [];
    for (let first = 0; first < keys.length; first += KEYS_PER_SEARCH) firsts.push(first);
    const together = Math.max(1, attachment.width / SEARCHES_SHARE);
    yield* attachment.each(firsts, together, (first) => this.#getSome(keys, first, values));
  }

  /** Searches only for keys whose values are not in the near cache, or not proven. */
  *#getNear(keys: readonly Key[], values: (V | undefined)[]): Operation<void> {
    const { attachment } = this.#access;
    const left: number[] = [];
    const entries = [...keys.entries()];
    yield* attachment.each(entries, attachment.width, (entry) =>
      this.#getKept(values, entry, left),
    );
    const searched = left.map((i) => keys[i]);
    const found: (V | undefined)[] = [];
    yield* this.#search(searched, found);
    left.forEach((i, at) => {
      values[i] = found[at];
    });
  }

  *#getKept(values: (V | undefined)[], [i, key]: [number, Key], left: number[]): Operation<void> {
    const { near } = this.#access;
    const value = near === undefined ? UNPROVEN : yield* near.read(key);
    if (value === UNPROVEN) left.push(i);
    else values[i] = value as V;
  }

  /** The values of as many leading keys as fit in `maxBytes`, but at least of the first. */
  *#getBounded(keys: readonly Key[], maxBytes: number): Operation<(V | undefined)[]> {
    const own = [...keys];
    const values: (V | undefined)[] = [];
    const budget = { bytes: maxBytes };
    for (let first = 0; first < own.length && budget.bytes >= 0; first += KEYS_PER_SEARCH) {
      yield* this.#getSome(own, first, values, budget);
    }
    return values;
  }

  *#getInto(values: (V | undefined)[], [i, key]: [number, Key]): Operation<void> {
    const access = this.#access;
    const request = access.requestTo('read', key);
    yield* access.attachment.enter();
    try {
      const isFound = yield* access.searchLive(request);
      values[i] = isFound ? ((yield* access.foundValue(request)) as V) : undefined;
    } finally {
      access.end(request);
    }
  }

  /** Gets a group of keys, from index `first` on, until the budget (if any) is used up. */
  *#getSome(
    keys: readonly Key[],
    first: number,
    values: (V | undefined)[],
    budget?: Budget,
  ): Operation<void> {
    const { attachment, evictor, index } = this.#access;
    const access = this.#access;
    const count = Math.min(KEYS_PER_SEARCH, keys.length - first);
    const searching = this.#idle.pop() ?? new Searching();
    const { requests, batch, found } = searching;
    this.#setKeys(requests, keys, first, count);
    yield* attachment.enter();
    let given = 0;
    try {
      yield* index.searchMany(requests, count, batch, found);
      for (let i = 0; i < count; i++) {
        const request = requests[i];
        const hasNoTimes = evictor === undefined && found[i] && request.timesAt < 0;
        const isFound = found[i] ? hasNoTimes || (yield* access.isLive(request)) : access.isMiss();
        if (budget !== undefined && isFound) budget.bytes -= request.found.contentBytes;
        if (budget !== undefined && budget.bytes < 0 && first + i > 0) return;
        const key = keys[first + i];
        values[first + i] = isFound
          ? (access.kept(key, request, yield* access.foundValue(request)) as V)
          : access.noteAbsent(key);
        // Frees each request at once: a value of many blocks is assembled in its own memory.
        access.give(request);
        given++;
      }
    } finally {
      attachment.exit();
      while (given < count) access.give(requests[given++]);
      // A kept search must not hold requests, which would exceed the limit of idle requests.
      requests.length = 0;
      if (this.#idle.length < KEPT_SEARCHES) this.#idle.push(searching);
    }
  }

  #setKeys(requests: Request[], keys: readonly Key[], first: number, count: number): void {
    const { idle, index, meter, near } = this.#access;
    touchKeys(keys, first, count);
    meter.countReads(count);
    for (let i = 0; i < count; i++) {
      requests[i] = idle.pop() ?? index.newRequest();
      requests[i].setKey(this.#access.keyIn(keys[first + i]), index.records.seed);
      if (near !== undefined) requests[i].uses += near.usesOf(keys[first + i]);
    }
  }

  *set(entries: Iterable<readonly [Key, unknown]>, options?: ExpiryOptions): Operation<void> {
    const { attachment } = this.#access;
    attachment.refuseClosed();
    checkEntries(entries);
    this.#access.expiryOf(options);
    const { width } = attachment;
    const round = new Map<string, readonly [Key, unknown]>();
    for (const entry of entries) {
      checkEntry(entry);
      if (width === 1) {
        yield* this.#setOne(entry, options);
        continue;
      }
      const name = nameOf(entry[0]);
      // Operations in flight are unordered, so a repeated key starts a new round.
      if (round.size === width || round.has(name)) yield* this.#setRound(round, options);
      round.set(name, entry);
    }
    yield* this.#setRound(round, options);
  }

  *#setRound(
    round: Map<string, readonly [Key, unknown]>,
    options: ExpiryOptions | undefined,
  ): Operation<void> {
    const { attachment } = this.#access;
    const entries = [...round.values()];
    round.clear();
    yield* attachment.each(entries, attachment.width, (entry) => this.#setOne(entry, options));
  }

  *#setOne(
    [key, value]: readonly [Key, unknown],
    options: ExpiryOptions | undefined,
  ): Operation<void> {
    const access = this.#access;
    const data = encoded(value, access.settings.values);
    yield* access.store(key, data, ALWAYS, access.expiryOf(options));
  }

  *delete(keys: readonly Key[]): Operation<number> {
    const { attachment } = this.#access;
    attachment.refuseClosed();
    checkKeys(keys);
    const count = { removed: 0 };
    yield* attachment.each([...keys], attachment.width, (key) => this.#deleteOne(key, count));
    return count.removed;
  }

  *#deleteOne(key: Key, count: { removed: number }): Operation<void> {
    if (yield* this.#access.remove(key)) count.removed++;
  }
}

/** Equal for keys with equal bytes. An invalid key is refused later. */
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
