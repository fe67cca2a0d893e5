import type { Command } from '../command.ts';

export const del: Command = {
  name: 'del',
  summary: 'Deletes keys and returns how many existed.',
  group: 'generic',
  arity: -2,
  flags: ['write'],
  keys: [1, -1, 1],
  run(request, { store, reply }) {
    reply.integer(store.deleteMany(request.slice(1)));
  },
};
