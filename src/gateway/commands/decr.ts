import type { Command } from '../command.ts';

export const decr: Command = {
  name: 'decr',
  summary: 'Subtracts one from an integer; a key that does not exist counts as 0.',
  group: 'string',
  arity: 2,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    reply.integer(store.increment(request[1], -1n));
  },
};
