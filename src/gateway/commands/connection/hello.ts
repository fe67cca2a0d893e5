import { isPlainName, keyword, parseInteger, ReplyError } from '../../arguments.ts';
import { type Command, type CommandContext, REDIS_VERSION } from '../../command.ts';
import type { ProtocolVersion } from '../../protocol/reply.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { authenticate } from '../support/authenticate.ts';
import { INVALID_NAME } from './client.ts';

const VERSION_NOT_AN_INTEGER = 'ERR Protocol version is not an integer or out of range';

export const hello: Command = {
  name: 'hello',
  summary: 'Chooses RESP2 or RESP3 and describes the server.',
  group: 'connection',
  arity: -1,
  flags: ['fast', 'loading', 'no_auth', 'stale'],
  run(request, context) {
    const { reply, state } = context;
    const protocol = request.length > 1 ? parseVersion(request[1]) : reply.protocol;
    const { name, user, password } = parseOptions(request);
    if (user && password) authenticate(user, password, context);
    if (state.user === '') {
      throw new ReplyError(
        'NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO ' +
          '<proto> AUTH <user> <pass> option can be used to authenticate the client and select ' +
          'the RESP protocol version at the same time',
      );
    }
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

interface Options {
  name?: string;
  user?: Buffer;
  password?: Buffer;
}

function parseOptions(request: Request): Options {
  const options: Options = {};
  for (let at = 2; at < request.length; at++) {
    const option = keyword(request[at]);
    if (option === 'AUTH' && at + 2 < request.length) {
      options.user = request[++at];
      options.password = request[++at];
    } else if (option === 'SETNAME' && at + 1 < request.length) {
      const argument = request[++at];
      if (!isPlainName(argument)) throw new ReplyError(INVALID_NAME);
      options.name = argument.toString('latin1');
    } else {
      const given = request[at].toString('utf8', 0, 128);
      throw new ReplyError(`ERR Syntax error in HELLO option '${given}'`);
    }
  }
  return options;
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
