import type { Command } from '../command.ts';

export const unlink: Command = {
  name: 'unlink',
  summary: 'Deletes keys and returns how many existed; the same as DEL here.',
  group: 'generic',
  arity: -2,
  flags: ['write', 'fast'],
  keys: [1, -1, 1],
  run(request, { store, reply }) {
    reply.integer(store.deleteMany(request.slice(1)));
  },
};
