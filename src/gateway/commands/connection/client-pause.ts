import { keyword, parseInteger, ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';

const NOT_A_TIMEOUT = 'ERR timeout is not an integer or out of range';

export const clientPause: Command = {
  name: 'client|pause',
  summary: 'Has all clients wait so many milliseconds with their commands, or with writes (WRITE).',
  group: 'connection',
  arity: -3,
  flags: ['admin', 'loading', 'stale'],
  // None that it holds back is in flight when its reply comes.
  alone: true,
  run(request, { reply, server }) {
    const mode = request.length > 3 ? keyword(request[3]) : 'ALL';
    if (request.length > 4 || (mode !== 'ALL' && mode !== 'WRITE')) {
      throw new ReplyError('ERR CLIENT PAUSE mode must be WRITE or ALL');
    }
    const ms = parseInteger(request[2], NOT_A_TIMEOUT);
    if (ms < 0n) throw new ReplyError('ERR timeout is negative');
    if (ms > BigInt(Number.MAX_SAFE_INTEGER) / 2n) throw new ReplyError(NOT_A_TIMEOUT);
    server.pause.begin(Number(ms), mode === 'WRITE' ? 'write' : 'all');
    reply.ok();
  },
};

export const clientUnpause: Command = {
  name: 'client|unpause',
  summary: 'Ends a pause of writes; one of all commands holds this one back as well.',
  group: 'connection',
  arity: 2,
  flags: ['admin', 'loading', 'stale'],
  run(_request, { reply, server }) {
    reply.ok();
    server.pause.end();
  },
};
