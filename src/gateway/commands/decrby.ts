import { type Command, parseInteger, ReplyError } from '../command.ts';

const INTEGER_MIN = -(2n ** 63n);

export const decrby: Command = {
  name: 'decrby',
  summary: 'Subtracts from an integer; a key that does not exist counts as 0.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    const by = parseInteger(request[2]);
    // The one 64-bit integer whose negation is none.
    if (by === INTEGER_MIN) throw new ReplyError('ERR decrement would overflow');
    reply.integer(store.increment(request[1], -by));
  },
};
