import type { Key, Value } from '../../../store/api.ts';
import type { Operation } from '../../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { GatewayStore } from '../../gateway-store.ts';
import { OUTPUT_BYTES_MAX } from '../../limits.ts';
import { ReplyWriter } from '../../protocol/reply.ts';
import type { Request } from '../../protocol/request-reader.ts';
import type { ServerView } from '../../server-view.ts';
import { KeyPages } from '../support/key-pages.ts';
import { parseRange } from '../support/key-range.ts';

export const swRange: Command = {
  name: 'sw.range',
  summary: 'Returns the keys of a range in order; with REV from max to min. As ZRANGE BYLEX.',
  group: 'module',
  arity: -3,
  flags: ['readonly'],
  *run(request, { store, reply, server }) {
    const { reverse, withValues, offset, limit } = parseOptions(request);
    const [low, high] = reverse ? [2, 1] : [1, 2];
    const bounds = parseRange(request[low], request[high]);
    // Of keys that are gone before their values are read, others take the place.
    const keysMax = withValues ? Number.POSITIVE_INFINITY : limitOf(offset + limit);
    const pages = new KeyPages(store, limit > 0 ? bounds : undefined, { reverse, limit: keysMax });
    // The array's length comes before its elements, so that they are gathered first.
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
 * Of the first keys what is replied: each key, or each with its value, none for a key that is gone.
 * Values are read by key, as many as are small: a step of a scan of records would read those of
 * several leaves at once, each up to 64 MiB.
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
