import type { Command } from '../../command.ts';
import { parseDatabase } from '../support/database-argument.ts';

export const select: Command = {
  name: 'select',
  summary: 'Chooses the database of the commands that follow.',
  group: 'connection',
  arity: 2,
  flags: ['fast', 'loading', 'stale'],
  run(request, context) {
    context.select(parseDatabase(request[1], context));
    context.reply.ok();
  },
};
