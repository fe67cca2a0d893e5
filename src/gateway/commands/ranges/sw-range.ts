import type { Key, Value } from '../../../store/api.ts';
import type { RangeBounds } from '../../../store/ordered-api.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { GatewayStore } from '../../gateway-store.ts';
import { OUTPUT_BYTES_MAX } from '../../limits.ts';
import { ReplyWriter } from '../../protocol/reply.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { keyPages } from '../support/key-pages.ts';
import { parseRange } from '../support/key-range.ts';

export const swRange: Command = {
  name: 'sw.range',
  summary: 'Returns the keys of a range in order; with REV from max to min. As ZRANGE BYLEX.',
  group: 'module',
  arity: -3,
  flags: ['readonly'],
  run(request, context) {
    const options = parseOptions(request);
    const [low, high] = options.reverse ? [2, 1] : [1, 2];
    const bounds = parseRange(request[low], request[high]);
    // The array's length comes before its elements, so that they are gathered first.
    const body = new ReplyWriter();
    let elements = 0;
    for (const element of bounds === undefined ? [] : elementsOf(bounds, options, context.store)) {
      body.bulk(element);
      elements++;
      const { replyBytesMax } = context.server.limits;
      if (body.length > replyBytesMax) throw new ReplyError(tooLong(replyBytesMax));
    }
    context.reply.array(elements);
    context.reply.append(body);
  },
};

function tooLong(bytesMax: number): string {
  return `ERR the reply would be longer than ${bytesMax} bytes: ask for less by LIMIT`;
}

/** The keys, or with WITHVALUES keys and values in turn. */
function* elementsOf(
  bounds: RangeBounds,
  { reverse, offset, limit, withValues }: Options,
  store: GatewayStore,
): Generator<Key | Value> {
  // Of keys that are gone before their values are read, others take the place.
  const keysMax = withValues ? Number.POSITIVE_INFINITY : limitOf(offset + limit);
  let skip = offset;
  let left = limit;
  if (left === 0) return;
  for (const keys of keyPages(store, bounds, { reverse, limit: keysMax })) {
    const wanted = withValues ? pairsOf(keys, store) : keys.map((key) => [key]);
    for (const elements of wanted) {
      if (skip-- > 0) continue;
      yield* elements;
      if (--left === 0) return;
    }
  }
}

/**
 * Values are read by key, as many as are small: a step of a scan of records would read those of
 * several leaves at once, each up to 64 MiB. A key that is gone by then is left out.
 */
function* pairsOf(keys: readonly Key[], store: GatewayStore): Generator<[Key, Value]> {
  for (let at = 0; at < keys.length; ) {
    const values = store.getMany(keys.slice(at), { maxBytes: OUTPUT_BYTES_MAX });
    for (const [i, value] of values.entries()) {
      if (value !== undefined) yield [keys[at + i], value];
    }
    at += values.length;
  }
}

interface Options {
  reverse: boolean;
  offset: number;
  limit: number;
  withValues: boolean;
}

function parseOptions(request: Request): Options {
  const options = { reverse: false, offset: 0, limit: Number.POSITIVE_INFINITY, withValues: false };
  for (let at = 3; at < request.length; at++) {
    const option = keyword(request[at]);
    if (option === 'REV') options.reverse = true;
    else if (option === 'WITHVALUES') options.withValues = true;
    else if (option === 'LIMIT' && at + 2 < request.length) {
      options.offset = parseOffset(request[++at]);
      const count = parseInteger(request[++at]);
      options.limit = count < 0n ? Number.POSITIVE_INFINITY : Number(count);
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  return options;
}

/** More than can be counted is all. */
function limitOf(records: number): number {
  return Number.isSafeInteger(records) ? records : Number.POSITIVE_INFINITY;
}

function parseOffset(argument: Buffer): number {
  const offset = parseInteger(argument);
  if (offset < 0n) throw new ReplyError('ERR offset is out of range, must be positive');
  return Number(offset);
}
