import type { Command } from '../command.ts';

export const mget: Command = {
  name: 'mget',
  summary: 'Returns the values of several keys, null for each that does not exist.',
  group: 'string',
  arity: -2,
  flags: ['readonly', 'fast'],
  keys: [1, -1, 1],
  run(request, { store, reply }) {
    const values = store.getMany(request.slice(1));
    reply.array(values.length);
    for (const value of values) reply.bulkOrNull(value);
  },
};
