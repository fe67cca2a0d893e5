import type { Key, Value } from '../../store/api.ts';
import type { RangeBounds } from '../../store/ordered-api.ts';
import type { Operation } from '../../verbs/index.ts';
import { parseInteger, ReplyError, readOptions } from '../arguments.ts';
import { type Command, signature } from '../command.ts';
import type { GatewayStore } from '../gateway-store.ts';
import { ReplyWriter } from '../protocol/reply.ts';
import type { Request } from '../protocol/request-reader.ts';
import type { ServerView } from '../server-view.ts';
import { OUTPUT_BYTES_MAX } from '../settings.ts';

export const swRange: Command = {
  ...signature('sw.range min max [REV] [LIMIT offset count] [WITHVALUES]', 'module', 'readonly'),
  summary: 'Returns the keys of a range in order; with REV from max to min. As ZRANGE BYLEX.',
  *run(request, { store, reply, server }) {
    const { reverse, withValues, offset, limit } = parseOptions(request);
    const [low, high] = reverse ? [2, 1] : [1, 2];
    const bounds = parseRange(request[low], request[high]);
    // With values, later keys replace keys that vanish before their values are read.
    const keysMax = withValues ? Number.POSITIVE_INFINITY : limitOf(offset + limit);
    const pages = new KeyPages(store, limit > 0 ? bounds : undefined, { reverse, limit: keysMax });
    // The array's length precedes its elements, so gather the elements first.
    const body = new ReplyWriter();
    let elements = 0;
    let skip = offset;
    let left = limit;
    while (!pages.done && left > 0) {
      const keys = yield* pages.next();
      for (let at = 0; at < keys.length && left > 0; ) {
        const found = yield* elementsAt(keys.slice(at), withValues, store);
        at += found.length;
        for (const each of found) {
          if (each.length === 0 || skip-- > 0 || left-- <= 0) continue;
          elements += each.length;
          for (const element of each) body.bulk(element);
          checkReply(body, server);
        }
      }
    }
    reply.array(elements);
    reply.append(body);
  },
};

function checkReply({ length }: ReplyWriter, { limits }: ServerView): void {
  const bytesMax = limits.replyBytesMax;
  if (length <= bytesMax) return;
  throw new ReplyError(
    `ERR the reply would be longer than ${bytesMax} bytes: ask for less by LIMIT`,
  );
}

/**
 * Returns the elements of the reply for the first keys: the key, the key and its value, or nothing
 * for a key that is gone. Reads as many values as fit OUTPUT_BYTES_MAX. A scan of records would
 * read those of several leaves in one step, each up to 64 MiB.
 */
function* elementsAt(
  keys: readonly Key[],
  withValues: boolean,
  store: GatewayStore,
): Operation<(Key | Value)[][]> {
  if (!withValues) return keys.map((key) => [key]);
  const values = yield* store.getMany(keys, { maxBytes: OUTPUT_BYTES_MAX });
  return values.map((value, i) => (value === undefined ? [] : [keys[i], value]));
}

function parseOptions(request: Request) {
  const { REV, WITHVALUES, LIMIT } = readOptions(request, 3, { REV: 0, WITHVALUES: 0, LIMIT: 2 });
  const count = LIMIT === undefined ? -1n : parseInteger(LIMIT[1]);
  return {
    reverse: REV !== undefined,
    withValues: WITHVALUES !== undefined,
    offset: LIMIT === undefined ? 0 : parseOffset(LIMIT[0]),
    limit: count < 0n ? Number.POSITIVE_INFINITY : Number(count),
  };
}

/** A number that is not exact means no limit. */
function limitOf(records: number): number {
  return Number.isSafeInteger(records) ? records : Number.POSITIVE_INFINITY;
}

function parseOffset(argument: Buffer): number {
  const offset = parseInteger(argument);
  if (offset < 0n) throw new ReplyError('ERR offset is out of range, must be positive');
  return Number(offset);
}

export const swCount: Command = {
  ...signature('sw.count min max', 'module', 'readonly'),
  summary: 'Counts the keys of a range; needs a store on an ordered index. As ZLEXCOUNT.',
  *run(request, { store, reply }) {
    const range = parseRange(request[1], request[2]);
    reply.integer(range === undefined ? 0 : yield* store.count(range));
  },
};

export const swRemrange: Command = {
  ...signature('sw.remrange min max', 'module', 'write'),
  summary: 'Deletes the keys of a range, one by one, and returns how many. As ZREMRANGEBYLEX.',
  *run(request, { store, reply }) {
    const pages = new KeyPages(store, parseRange(request[1], request[2]));
    let removed = 0;
    while (!pages.done) removed += yield* store.deleteMany(yield* pages.next());
    reply.integer(removed);
  },
};

const OPEN = 0x28; // (
const CLOSED = 0x5b; // [
const NOT_A_RANGE = 'ERR min or max not valid string range item';

/**
 * Parses a range as in the BYLEX commands of sorted sets: `[key` includes the key, `(key` excludes
 * it, `-` and `+` are the lowest and highest ends. Undefined if the range is empty.
 */
function parseRange(min: Buffer, max: Buffer): RangeBounds | undefined {
  const low = parseEnd(min);
  const high = parseEnd(max);
  if (low === 'highest' || high === 'lowest') return undefined;
  const bounds: RangeBounds = {};
  if (low !== 'lowest') bounds[low.closed ? 'gte' : 'gt'] = low.key;
  if (high !== 'highest') bounds[high.closed ? 'lte' : 'lt'] = high.key;
  return bounds;
}

type End = 'lowest' | 'highest' | { closed: boolean; key: Uint8Array };

function parseEnd(argument: Buffer): End {
  if (argument.length === 1 && argument[0] === 0x2d) return 'lowest';
  if (argument.length === 1 && argument[0] === 0x2b) return 'highest';
  const [sign] = argument;
  if (sign !== OPEN && sign !== CLOSED) throw new ReplyError(NOT_A_RANGE);
  return { closed: sign === CLOSED, key: argument.subarray(1) };
}

/** Keys per page; each has up to 64 KiB. */
const PAGE_KEYS = 256;

/** Reads the keys of a range in order, page by page, so that never all are in memory. */
class KeyPages {
  readonly #store: GatewayStore;
  readonly #reverse: boolean;
  #rest: RangeBounds;
  /** How many keys may still come. */
  #left: number;

  /** Without bounds there are none. */
  constructor(
    store: GatewayStore,
    bounds: RangeBounds | undefined,
    { reverse = false, limit = Number.POSITIVE_INFINITY } = {},
  ) {
    this.#store = store;
    this.#reverse = reverse;
    this.#rest = bounds ?? {};
    this.#left = bounds === undefined ? 0 : limit;
  }

  get done(): boolean {
    return this.#left === 0;
  }

  *next(): Operation<Key[]> {
    const wanted = Math.min(this.#left, PAGE_KEYS);
    const keys = yield* this.#store.keysIn(this.#rest, this.#reverse, wanted);
    this.#left = keys.length < wanted ? 0 : this.#left - wanted;
    const { gte, gt, lte, lt } = this.#rest;
    const last = keys[keys.length - 1];
    this.#rest = this.#reverse ? { gte, gt, lt: last } : { gt: last, lte, lt };
    return keys;
  }
}
