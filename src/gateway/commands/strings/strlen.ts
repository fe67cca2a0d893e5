import type { Command } from '../../command.ts';

export const strlen: Command = {
  name: 'strlen',
  summary: 'Returns the length of a value in bytes; 0 for a key that does not exist.',
  group: 'string',
  arity: 2,
  flags: ['readonly', 'fast'],
  keys: [1, 1, 1],
  *run(request, { store, reply }) {
    reply.integer((yield* store.read(request[1], (bytes) => bytes.length)) ?? 0);
  },
};
