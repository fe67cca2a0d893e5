import type { Command } from '../../command.ts';

export const dbsize: Command = {
  name: 'dbsize',
  summary: 'Returns the number of keys.',
  group: 'server',
  arity: 1,
  flags: ['readonly', 'fast'],
  *run(_request, { store, reply }) {
    reply.integer(yield* store.size());
  },
};
