import { isPlainName, keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { clientLine } from '../support/client-line.ts';
import { parseListOptions } from '../support/client-selection.ts';
import { container } from '../support/container.ts';
import { clientKill } from './client-kill.ts';
import { clientPause, clientUnpause } from './client-pause.ts';

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

const info: Command = {
  ...shared,
  name: 'client|info',
  summary: 'Describes this connection as CLIENT LIST does.',
  arity: 2,
  run(_request, { reply, client }) {
    reply.verbatim(`${clientLine(client)}\n`);
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
  summary: 'Has commands answered (ON), none of them (OFF), or all but the next one (SKIP).',
  arity: 3,
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
  ...shared,
  name: 'client|no-evict',
  summary: 'Spares this connection when clients hold too much memory (ON), or not (OFF).',
  arity: 3,
  run(request, { reply, state }) {
    const mode = keyword(request[2]);
    if (mode !== 'ON' && mode !== 'OFF') throw new ReplyError(SYNTAX_ERROR);
    state.isKept = mode === 'ON';
    reply.ok();
  },
};

const list: Command = {
  ...shared,
  name: 'client|list',
  summary: 'Describes the clients of this server: all, those of a TYPE, or by ID.',
  arity: -2,
  run(request, { reply, server }) {
    const wanted = parseListOptions(request.slice(2));
    const clients = [...server.clients.values()].filter(wanted);
    reply.verbatim(clients.map((each) => `${clientLine(each)}\n`).join(''));
  },
};

export const client = container({
  ...shared,
  name: 'client',
  summary: 'Reads and sets what the server knows about its connections.',
  arity: -2,
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
