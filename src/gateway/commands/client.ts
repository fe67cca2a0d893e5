import { type Command, isPlainName, keyword, ReplyError, SYNTAX_ERROR } from '../command.ts';
import { container } from './support/container.ts';

export const INVALID_NAME =
  'ERR Client names cannot contain spaces, newlines or special characters.';

const shared = { group: 'connection', flags: ['fast', 'loading', 'stale'] } as const;

const id: Command = {
  ...shared,
  name: 'client|id',
  summary: 'Returns the number of this connection.',
  arity: 2,
  run(_request, { reply, state }) {
    reply.integer(state.id);
  },
};

const getName: Command = {
  ...shared,
  name: 'client|getname',
  summary: 'Returns the name of this connection, or null.',
  arity: 2,
  run(_request, { reply, state }) {
    reply.bulkOrNull(state.name === '' ? undefined : state.name);
  },
};

const setName: Command = {
  ...shared,
  name: 'client|setname',
  summary: 'Names this connection; an empty name takes the name away.',
  arity: 3,
  run(request, { reply, state }) {
    if (!isPlainName(request[2])) throw new ReplyError(INVALID_NAME);
    state.name = request[2].toString('latin1');
    reply.ok();
  },
};

const setInfo: Command = {
  ...shared,
  name: 'client|setinfo',
  summary: 'Tells the name (lib-name) or version (lib-ver) of the library that connects.',
  arity: 4,
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
  ...shared,
  name: 'client|reply',
  summary: 'Takes ON, which is how it is; OFF and SKIP are refused and end the connection.',
  arity: 3,
  run(request, { reply, state }) {
    const mode = keyword(request[2]);
    if (mode === 'ON') {
      reply.ok();
      return;
    }
    if (mode !== 'OFF' && mode !== 'SKIP') throw new ReplyError(SYNTAX_ERROR);
    // The client counts on replies that do not come: it would take each for another command's.
    state.ended = true;
    throw new ReplyError(`ERR CLIENT REPLY ${mode} is not supported`);
  },
};

export const client = container({
  ...shared,
  name: 'client',
  summary: 'Reads and sets what the server knows about this connection.',
  arity: -2,
  subcommands: [id, getName, replyMode, setName, setInfo],
});
