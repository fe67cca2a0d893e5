import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';

export const flushdb: Command = {
  name: 'flushdb',
  summary: 'Deletes all keys of the database.',
  group: 'server',
  arity: -1,
  flags: ['write'],
  *run(request, context) {
    checkMode(request);
    yield* context.store.clear();
    context.reply.ok();
  },
};

export const flushall: Command = {
  name: 'flushall',
  summary: 'Deletes all keys of all databases.',
  group: 'server',
  arity: -1,
  flags: ['write'],
  *run(request, context) {
    checkMode(request);
    for (const { store } of context.server.databases.existing()) yield* store.clear();
    context.reply.ok();
  },
};

/** ASYNC is taken as a permission: the keys are gone when the reply comes. */
function checkMode(request: Request): void {
  const mode = request.length === 1 ? 'SYNC' : keyword(request[1]);
  if (request.length > 2 || (mode !== 'SYNC' && mode !== 'ASYNC')) {
    throw new ReplyError(SYNTAX_ERROR);
  }
}
