import {
  type Command,
  type CommandContext,
  isPlainName,
  keyword,
  parseInteger,
  REDIS_VERSION,
  ReplyError,
} from '../command.ts';
import type { ProtocolVersion } from '../reply.ts';
import type { Request } from '../request-reader.ts';
import { INVALID_NAME } from './client.ts';

const VERSION_NOT_AN_INTEGER = 'ERR Protocol version is not an integer or out of range';

export const hello: Command = {
  name: 'hello',
  summary: 'Chooses RESP2 or RESP3 and describes the server.',
  group: 'connection',
  arity: -1,
  flags: ['fast', 'loading', 'stale'],
  run(request, context) {
    const { reply, state } = context;
    const protocol = request.length > 1 ? parseVersion(request[1]) : reply.protocol;
    const name = parseName(request);
    // Only now, so that a refused HELLO changes nothing.
    if (name !== undefined) state.name = name;
    reply.protocol = protocol;
    describe(context);
  },
};

function parseVersion(argument: Buffer): ProtocolVersion {
  const version = Number(parseInteger(argument, VERSION_NOT_AN_INTEGER));
  if (version !== 2 && version !== 3) throw new ReplyError('NOPROTO unsupported protocol version');
  return version;
}

function parseName(request: Request): string | undefined {
  let name: string | undefined;
  for (let at = 2; at < request.length; at++) {
    const option = keyword(request[at]);
    if (option === 'AUTH' && at + 2 < request.length) {
      throw new ReplyError('ERR AUTH is not supported: connect without user name and password');
    }
    if (option !== 'SETNAME' || at + 1 === request.length) {
      const given = request[at].toString('utf8', 0, 128);
      throw new ReplyError(`ERR Syntax error in HELLO option '${given}'`);
    }
    const argument = request[++at];
    if (!isPlainName(argument)) throw new ReplyError(INVALID_NAME);
    name = argument.toString('latin1');
  }
  return name;
}

function describe({ reply, state }: CommandContext): void {
  reply.map(7);
  reply.bulk('server');
  reply.bulk('redis');
  reply.bulk('version');
  reply.bulk(REDIS_VERSION);
  reply.bulk('proto');
  reply.integer(reply.protocol);
  reply.bulk('id');
  reply.integer(state.id);
  reply.bulk('mode');
  reply.bulk('standalone');
  reply.bulk('role');
  reply.bulk('master');
  reply.bulk('modules');
  reply.array(0);
}
