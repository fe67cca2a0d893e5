import type { Command } from '../../command.ts';

export const get: Command = {
  name: 'get',
  summary: 'Returns the value of a key, or null.',
  group: 'string',
  arity: 2,
  flags: ['readonly', 'fast'],
  keys: [1, 1, 1],
  *run(request, { store, reply, server: { totals } }) {
    const value = yield* store.get(request[1]);
    if (value === undefined) totals.misses++;
    else totals.hits++;
    reply.bulkOrNull(value);
  },
};
