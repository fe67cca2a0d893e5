import type { Command } from '../command.ts';

export const getset: Command = {
  name: 'getset',
  summary: 'Sets a key and returns its former value.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    const { previous } = store.write(request[1], request[2], { previous: true });
    reply.bulkOrNull(previous);
  },
};
