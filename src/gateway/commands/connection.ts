import {
  INVALID_NAME,
  isPlainName,
  keyword,
  NOT_AN_INTEGER,
  parseInteger,
  ReplyError,
  readOptions,
  SYNTAX_ERROR,
  wrongNumberOfArguments,
} from '../arguments.ts';
import { type Command, type CommandContext, REDIS_VERSION, signature } from '../command.ts';
import type { ProtocolVersion } from '../protocol/reply.ts';
import type { Request } from '../protocol/request-reader.ts';
import type { Client } from '../server-view.ts';
import { container } from './support/container.ts';
import { leaveAll } from './support/subscriptions.ts';

export const ping: Command = {
  ...signature('ping [message]', 'connection', 'fast'),
  summary: 'Returns PONG, or its argument.',
  run(request, { reply, state }) {
    if (request.length > 2) throw wrongNumberOfArguments('ping');
    if (state.isSubscriber && reply.protocol === 2) {
      // A RESP2 client that subscribes takes every reply for a message.
      reply.array(2);
      reply.bulk('pong');
      reply.bulk(request[1] ?? '');
    } else if (request.length === 2) reply.bulk(request[1]);
    else reply.pong();
  },
};

export const echo: Command = {
  ...signature('echo message', 'connection', 'fast', 'loading', 'stale'),
  summary: 'Returns its argument.',
  run(request, { reply }) {
    reply.bulk(request[1]);
  },
};

export const select: Command = {
  ...signature('select database', 'connection', 'fast', 'loading', 'stale'),
  summary: 'Chooses the database of the commands that follow.',
  run(request, context) {
    context.select(context.server.databases.parse(request[1]));
    context.reply.ok();
  },
};

export const reset: Command = {
  ...signature('reset', 'connection', 'fast', 'loading', 'no_auth', 'stale'),
  summary: 'Resets the connection as if it were new: RESP2, no name, database 0.',
  *run(_request, context) {
    const { reply, state, server, client } = context;
    yield* leaveAll(context);
    server.monitors.remove(client);
    state.reset();
    context.select(0);
    reply.protocol = 2;
    reply.simple('RESET');
  },
};

export const quit: Command = {
  ...signature('quit [argument ...]', 'connection', 'fast', 'loading', 'no_auth', 'stale'),
  summary: 'Closes the connection after the replies to earlier commands.',
  run(_request, { reply, state }) {
    state.ended = true;
    reply.ok();
  },
};

const DEFAULT_USER = Buffer.from('default');

export const auth: Command = {
  ...signature('auth [user] password', 'connection', 'fast', 'loading', 'no_auth', 'stale'),
  summary: 'Authenticates by a password, or by a user and a password.',
  run([, ...words], context) {
    if (words.length > 2) throw new ReplyError(SYNTAX_ERROR);
    if (words.length === 1 && context.server.passwords === undefined) {
      throw new ReplyError(
        'ERR AUTH <password> called without any password configured for the default user. ' +
          'Are you sure your configuration is correct?',
      );
    }
    const [user, password] = words.length === 1 ? [DEFAULT_USER, words[0]] : words;
    authenticate(user, password, context);
    context.reply.ok();
  },
};

const VERSION_NOT_AN_INTEGER = 'ERR Protocol version is not an integer or out of range';

export const hello: Command = {
  ...signature(
    'hello [protocol [AUTH user password] [SETNAME name]]',
    'connection',
    'fast',
    'loading',
    'no_auth',
    'stale',
  ),
  summary: 'Chooses RESP2 or RESP3 and describes the server.',
  run(request, context) {
    const { reply, state } = context;
    const protocol = request.length > 1 ? parseVersion(request[1]) : reply.protocol;
    const { name, user, password } = parseHelloOptions(request);
    if (user && password) authenticate(user, password, context);
    if (state.user === '') {
      throw new ReplyError(
        'NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO ' +
          '<proto> AUTH <user> <pass> option can be used to authenticate the client and select ' +
          'the RESP protocol version at the same time',
      );
    }
    // Last, so that a refused HELLO changes nothing.
    if (name !== undefined) state.name = name;
    reply.protocol = protocol;
    describeServer(context);
  },
};

function parseVersion(argument: Buffer): ProtocolVersion {
  const version = Number(parseInteger(argument, VERSION_NOT_AN_INTEGER));
  if (version !== 2 && version !== 3) throw new ReplyError('NOPROTO unsupported protocol version');
  return version;
}

function parseHelloOptions(request: Request) {
  const { AUTH, SETNAME } = readOptions(request, 2, { AUTH: 2, SETNAME: 1 }, (word) => {
    return new ReplyError(`ERR Syntax error in HELLO option '${word.toString('utf8', 0, 128)}'`);
  });
  if (SETNAME !== undefined && !isPlainName(SETNAME[0])) throw new ReplyError(INVALID_NAME);
  const [user, password] = AUTH ?? [];
  return { name: SETNAME?.[0].toString('latin1'), user, password };
}

function describeServer({ reply, state }: CommandContext): void {
  const fields: [name: string, value: string | number][] = [
    ['server', 'redis'],
    ['version', REDIS_VERSION],
    ['proto', reply.protocol],
    ['id', state.id],
    ['mode', 'standalone'],
    ['role', 'master'],
  ];
  reply.map(fields.length + 1);
  for (const [name, value] of fields) {
    reply.bulk(name);
    if (typeof value === 'number') reply.integer(value);
    else reply.bulk(value);
  }
  reply.bulk('modules');
  reply.array(0);
}

/** Lets the client in, or throws the error of Redis. */
function authenticate(user: Buffer, password: Buffer, context: CommandContext): void {
  const { passwords } = context.server;
  const name = user.toString('utf8', 0, 1024);
  // Without passwords, the only user is `default`, which needs none.
  const isAllowed = passwords === undefined ? name === 'default' : passwords.allows(name, password);
  if (!isAllowed) {
    throw new ReplyError('WRONGPASS invalid username-password pair or user is disabled.');
  }
  context.allow(name);
}

const inConnection = (syntax: string) =>
  signature(syntax, 'connection', 'fast', 'loading', 'stale');

const id: Command = {
  ...inConnection('client|id'),
  summary: 'Returns the number of this connection.',
  run(_request, { reply, state }) {
    reply.integer(state.id);
  },
};

const info: Command = {
  ...inConnection('client|info'),
  summary: 'Describes this connection as CLIENT LIST does.',
  run(_request, { reply, client }) {
    reply.verbatim(`${clientLine(client)}\n`);
  },
};

const getName: Command = {
  ...inConnection('client|getname'),
  summary: 'Returns the name of this connection, or null.',
  run(_request, { reply, state }) {
    reply.bulkOrNull(state.name === '' ? undefined : state.name);
  },
};

const setName: Command = {
  ...inConnection('client|setname name'),
  summary: 'Names this connection; an empty name removes the name.',
  run(request, { reply, state }) {
    if (!isPlainName(request[2])) throw new ReplyError(INVALID_NAME);
    state.name = request[2].toString('latin1');
    reply.ok();
  },
};

const setInfo: Command = {
  ...inConnection('client|setinfo LIB-NAME|LIB-VER text'),
  summary: 'Sets the name (lib-name) or version (lib-ver) of the client library.',
  run(request, { reply, state }) {
    const attribute = keyword(request[2]);
    if (attribute !== 'LIB-NAME' && attribute !== 'LIB-VER') {
      throw new ReplyError(`ERR Unrecognized option '${request[2].toString('utf8', 0, 128)}'`);
    }
    if (!isPlainName(request[3])) {
      const name = attribute.toLowerCase();
      throw new ReplyError(`ERR ${name} cannot contain spaces, newlines or special characters.`);
    }
    const value = request[3].toString('latin1');
    if (attribute === 'LIB-NAME') state.libraryName = value;
    else state.libraryVersion = value;
    reply.ok();
  },
};

const replyMode: Command = {
  ...inConnection('client|reply ON|OFF|SKIP'),
  summary: 'Replies to all commands (ON), to none (OFF), or to all but the next one (SKIP).',
  run(request, { reply, state }) {
    const mode = keyword(request[2]);
    if (mode === 'ON') {
      state.replyMode = 'on';
      reply.ok();
    } else if (mode === 'OFF') state.replyMode = 'off';
    else if (mode !== 'SKIP') throw new ReplyError(SYNTAX_ERROR);
    else if (state.replyMode !== 'off') state.replyMode = 'skip-next';
  },
};

const noEvict: Command = {
  ...inConnection('client|no-evict ON|OFF'),
  summary: 'Exempts this connection from eviction when clients hold too much memory (ON or OFF).',
  run(request, { reply, state }) {
    const mode = keyword(request[2]);
    if (mode !== 'ON' && mode !== 'OFF') throw new ReplyError(SYNTAX_ERROR);
    state.isKept = mode === 'ON';
    reply.ok();
  },
};

const list: Command = {
  ...inConnection('client|list [TYPE type] [ID id ...]'),
  summary: 'Describes the clients of this server: all, those of a TYPE, or by ID.',
  run(request, { reply, server }) {
    const wanted = parseListOptions(request.slice(2));
    const clients = [...server.clients.values()].filter(wanted);
    reply.verbatim(clients.map((each) => `${clientLine(each)}\n`).join(''));
  },
};

const NOT_A_TIMEOUT = 'ERR timeout is not an integer or out of range';

const clientPause: Command = {
  ...signature('client|pause milliseconds [WRITE|ALL]', 'connection', 'admin', 'loading', 'stale'),
  summary: 'Holds back all commands, or only writes (WRITE), for some milliseconds.',
  // So no command that it holds back is still in flight when the client gets the reply.
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

const clientUnpause: Command = {
  ...signature('client|unpause', 'connection', 'admin', 'loading', 'stale'),
  summary: 'Ends a pause of writes. A pause of all commands holds this one back, too.',
  run(_request, { reply, server }) {
    reply.ok();
    server.pause.end();
  },
};

const clientKill: Command = {
  ...signature('client|kill address|filter [value ...]', 'connection', 'admin', 'loading', 'stale'),
  summary: 'Ends connections of this server: one by its address, or those that match filters.',
  run([, , ...words], context) {
    const { reply, server, client } = context;
    if (words.length === 1) {
      const address = words[0].toString('latin1');
      const found = [...server.clients.values()].find((each) => each.address === address);
      if (found === undefined) throw new ReplyError('ERR No such client');
      reply.ok();
      found.kill();
      return;
    }
    const { selections, sparesMe } = parseFilters(words, context);
    const chosen = [...server.clients.values()].filter(
      (each) => !(sparesMe && each === client) && selections.every((isMeant) => isMeant(each)),
    );
    reply.integer(chosen.length);
    for (const each of chosen) each.kill();
  },
};

export const client = container({
  ...inConnection('client subcommand [argument ...]'),
  summary: 'Reads and sets what the server knows about its connections.',
  subcommands: [
    getName,
    id,
    info,
    clientKill,
    list,
    noEvict,
    clientPause,
    replyMode,
    setInfo,
    setName,
    clientUnpause,
  ],
});

function parseFilters(
  words: readonly Buffer[],
  { server }: CommandContext,
): { selections: Selection[]; sparesMe: boolean } {
  const selections: Selection[] = [];
  let sparesMe = true;
  if (words.length % 2 === 1) throw new ReplyError(SYNTAX_ERROR);
  for (let at = 0; at < words.length; at += 2) {
    const value = words[at + 1];
    const text = value.toString('latin1');
    switch (keyword(words[at])) {
      case 'ID': {
        const id = parseId(value, 'ERR client-id should be greater than 0');
        if (id < 1) throw new ReplyError('ERR client-id should be greater than 0');
        selections.push(({ state }) => state.id === id);
        break;
      }
      case 'TYPE':
        selections.push(ofKind(value));
        break;
      case 'ADDR':
        selections.push(({ address }) => address === text);
        break;
      case 'LADDR':
        selections.push(({ localAddress }) => localAddress === text);
        break;
      case 'USER':
        if (text !== 'default' && server.passwords?.has(text) !== true) {
          throw new ReplyError(`ERR No such user '${text.slice(0, 128)}'`);
        }
        selections.push(({ state }) => state.user === text);
        break;
      case 'SKIPME':
        if (!/^(?:yes|no)$/i.test(text)) throw new ReplyError(SYNTAX_ERROR);
        sparesMe = /^yes$/i.test(text);
        break;
      default:
        throw new ReplyError(SYNTAX_ERROR);
    }
  }
  return { selections, sparesMe };
}

/** Whether a connection matches a filter. */
type Selection = (client: Client) => boolean;

const KINDS: Readonly<Record<string, ClientKind>> = {
  MASTER: 'master',
  NORMAL: 'normal',
  PUBSUB: 'pubsub',
  REPLICA: 'replica',
  SLAVE: 'replica',
};

/** The options of CLIENT LIST. */
function parseListOptions([option, ...values]: readonly Buffer[]): Selection {
  if (option === undefined) return () => true;
  const name = keyword(option);
  if (name === 'TYPE' && values.length === 1) return ofKind(values[0]);
  if (name !== 'ID' || values.length === 0) throw new ReplyError(SYNTAX_ERROR);
  const ids = new Set(values.map((value) => parseId(value, 'ERR Invalid client ID')));
  return ({ state }) => ids.has(state.id);
}

function ofKind(argument: Buffer): Selection {
  const kind = KINDS[keyword(argument)];
  if (kind === undefined) {
    throw new ReplyError(`ERR Unknown client type '${argument.toString('utf8', 0, 128)}'`);
  }
  return (client) => kindOf(client) === kind;
}

function parseId(argument: Buffer, error = NOT_AN_INTEGER): number {
  return Number(parseInteger(argument, error));
}

/** Kinds of connections that CLIENT LIST and CLIENT KILL select. */
type ClientKind = 'master' | 'normal' | 'pubsub' | 'replica';

function kindOf({ state }: Client): ClientKind {
  return state.isSubscriber ? 'pubsub' : 'normal';
}

/** Describes a connection in one line, as Redis does, without what does not exist here. */
function clientLine(client: Client): string {
  const { state } = client;
  const now = Date.now();
  const { transaction } = state;
  const fields: [name: string, value: string | number][] = [
    ['id', state.id],
    ['addr', client.address],
    ['laddr', client.localAddress],
    ['name', state.name],
    ['age', Math.floor((now - client.connectedAt) / 1000)],
    ['idle', Math.floor((now - client.activeAt) / 1000)],
    ['flags', flagsOf(client)],
    ['db', state.database],
    ['sub', state.channels.size],
    ['psub', state.patterns.size],
    ['multi', transaction === undefined ? -1 : transaction.queued.length],
    ['qbuf', client.inputBytes],
    ['multi-mem', transaction?.bytes ?? 0],
    ['omem', client.outputBytes],
    ['tot-mem', client.inputBytes + client.outputBytes + state.heldBytes],
    ['cmd', state.lastCommand],
    ['user', state.user],
    ['resp', client.protocol],
    ['lib-name', state.libraryName],
    ['lib-ver', state.libraryVersion],
  ];
  return fields.map(([name, value]) => `${name}=${value}`).join(' ');
}

function flagsOf({ state }: Client): string {
  let flags = '';
  if (state.isMonitor) flags += 'O';
  if (state.isSubscriber) flags += 'P';
  if (state.transaction !== undefined) flags += 'x';
  if (state.isKept) flags += 'e';
  return flags || 'N';
}
