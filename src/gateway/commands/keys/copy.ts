import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { parseDatabase } from '../support/database-argument.ts';
import { transfer } from '../support/transfer.ts';

const SAME = 'ERR source and destination objects are the same';

export const copy: Command = {
  name: 'copy',
  summary: 'Copies a value to another key, also of another database (DB), also over one (REPLACE).',
  group: 'generic',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, 2, 1],
  alone: true,
  *run(request, context) {
    const { database, replace } = parseOptions(request, context);
    const [, source, target] = request;
    const { store, server, state } = context;
    if (database === state.database && source.equals(target)) throw new ReplyError(SAME);
    const to = server.databases.get(database).store;
    const outcome = yield* transfer({ from: store, source, to, target, replace, move: false });
    context.reply.integer(outcome === 'done' ? 1 : 0);
    if (outcome === 'done') yield* context.changed('g', 'copy_to', target);
  },
};

export const move: Command = {
  name: 'move',
  summary: 'Moves a key to another database in which it does not exist.',
  group: 'generic',
  arity: 3,
  flags: ['write', 'fast'],
  keys: [1, 1, 1],
  alone: true,
  *run([, key, argument], context) {
    const database = parseDatabase(argument, context);
    const { store, server, state } = context;
    if (database === state.database) throw new ReplyError(SAME);
    const to = server.databases.get(database).store;
    const names = { source: key, target: key };
    const outcome = yield* transfer({ from: store, to, ...names, replace: false, move: true });
    context.reply.integer(outcome === 'done' ? 1 : 0);
    if (outcome === 'done') yield* context.changed('g', 'move_from', key);
  },
};

function parseOptions(
  request: Request,
  context: CommandContext,
): { database: number; replace: boolean } {
  let { database } = context.state;
  let replace = false;
  for (let at = 3; at < request.length; at++) {
    const option = keyword(request[at]);
    if (option === 'REPLACE') replace = true;
    else if (option === 'DB' && at + 1 < request.length) {
      database = parseDatabase(request[++at], context);
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  return { database, replace };
}
