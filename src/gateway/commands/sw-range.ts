import type { RangeOptions } from '../../store/ordered-api.ts';
import { type Command, keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../command.ts';
import type { Request } from '../request-reader.ts';
import { parseRange } from './support/key-range.ts';

export const swRange: Command = {
  name: 'sw.range',
  summary: 'Returns the keys of a range in order; with REV from max to min. As ZRANGE BYLEX.',
  group: 'module',
  arity: -3,
  flags: ['readonly'],
  run(request, { store, reply }) {
    const { reverse, offset, limit, withValues } = parseOptions(request);
    const [low, high] = reverse ? [2, 1] : [1, 2];
    const bounds = parseRange(request[low], request[high]);
    const found: (string | Uint8Array)[] = [];
    if (bounds !== undefined && limit > 0) {
      const range: RangeOptions = { ...bounds, reverse, limit: limitOf(offset + limit) };
      if (withValues) for (const pair of store.entries(range)) found.push(...pair);
      else for (const key of store.keys(range)) found.push(key);
    }
    const wanted = found.slice(withValues ? 2 * offset : offset);
    reply.array(wanted.length);
    for (const item of wanted) reply.bulk(item);
  },
};

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
