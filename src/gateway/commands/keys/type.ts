import type { Command } from '../../command.ts';

export const type: Command = {
  name: 'type',
  summary: 'Returns the type of a value: string, or none for a key that does not exist.',
  group: 'generic',
  arity: 2,
  flags: ['readonly', 'fast'],
  keys: [1, 1, 1],
  *run(request, { store, reply }) {
    reply.simple((yield* store.has(request[1])) ? 'string' : 'none');
  },
};
