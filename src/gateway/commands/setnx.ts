import type { Command } from '../command.ts';

export const setnx: Command = {
  name: 'setnx',
  summary: 'Sets a key that does not exist yet.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    reply.integer(store.insert(request[1], request[2]) ? 1 : 0);
  },
};
