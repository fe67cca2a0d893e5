import { type Command, parseInteger } from '../command.ts';

export const incrby: Command = {
  name: 'incrby',
  summary: 'Adds to an integer; a key that does not exist counts as 0.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    reply.integer(store.increment(request[1], parseInteger(request[2])));
  },
};
