import type { KeyPage } from '../../../store/api.ts';
import type { Operation } from '../../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { GatewayStore } from '../../gateway-store.ts';
import { Glob } from '../../glob.ts';
import { OUTPUT_BYTES_MAX } from '../../limits.ts';
import type { Request } from '../../protocol/request-reader.ts';

const COUNT_DEFAULT = 10;
/** COUNT is a hint; more than this would keep the other clients waiting. */
const COUNT_MAX = 16_384;
/** Keys that the store is asked for at once. A key has up to 64 KiB. */
const COUNT_TOGETHER = 64;
const INVALID_CURSOR = 'ERR invalid cursor';

export const scan: Command = {
  name: 'scan',
  summary: 'Walks over the keys, some per call: begin with 0, go on with the cursor returned.',
  group: 'generic',
  arity: -2,
  flags: ['readonly'],
  *run(request, { store, reply }) {
    const cursor = parseCursor(request[1]);
    const { match, count, type } = parseOptions(request);
    if (type !== 'STRING') {
      reply.array(2);
      reply.bulk('0');
      reply.array(0);
      return;
    }
    const page = yield* pageOf(store, cursor, count, match);
    reply.array(2);
    reply.bulk(String(page.cursor));
    reply.array(page.keys.length);
    for (const key of page.keys) reply.bulk(key);
  },
};

/** About `count` keys, fewer when they are long: a page is in memory as a whole. */
function* pageOf(
  store: GatewayStore,
  from: number,
  count: number,
  match?: Glob,
): Operation<KeyPage> {
  const keys: Uint8Array[] = [];
  let cursor = from;
  let bytes = 0;
  for (let left = count; left > 0 && bytes < OUTPUT_BYTES_MAX; left -= COUNT_TOGETHER) {
    // What the pattern begins with spares an ordered store the walk to other keys.
    const hint = match && { prefix: match.prefix };
    const page = yield* store.scanKeys(cursor, Math.min(left, COUNT_TOGETHER), hint);
    for (const key of page.keys) {
      if (match?.matches(key) === false) continue;
      keys.push(key);
      bytes += key.length;
    }
    cursor = page.cursor;
    if (cursor === 0) break;
  }
  return { cursor, keys };
}

function parseCursor(argument: Buffer): number {
  const cursor = parseInteger(argument, INVALID_CURSOR);
  if (cursor < 0n || cursor > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ReplyError(INVALID_CURSOR);
  }
  return Number(cursor);
}

function parseOptions(request: Request): { match?: Glob; count: number; type: string } {
  let match: Glob | undefined;
  let count = COUNT_DEFAULT;
  let type = 'STRING';
  for (let at = 2; at < request.length; at += 2) {
    const option = keyword(request[at]);
    const argument = request[at + 1];
    if (argument === undefined) throw new ReplyError(SYNTAX_ERROR);
    if (option === 'MATCH') match = new Glob(argument);
    else if (option === 'COUNT') count = parseCount(argument);
    else if (option === 'TYPE') type = keyword(argument);
    else throw new ReplyError(SYNTAX_ERROR);
  }
  return { match: match?.matchesAll ? undefined : match, count, type };
}

function parseCount(argument: Buffer): number {
  const count = parseInteger(argument);
  if (count < 1n) throw new ReplyError(SYNTAX_ERROR);
  return count > COUNT_MAX ? COUNT_MAX : Number(count);
}
