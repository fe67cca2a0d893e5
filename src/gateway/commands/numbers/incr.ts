import type { Operation } from '../../../verbs/index.ts';
import { parseInteger, ReplyError } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';

const INTEGER_MIN = -(2n ** 63n);
const shared = {
  group: 'string',
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
} as const;

export const incr: Command = {
  ...shared,
  name: 'incr',
  summary: 'Adds one to an integer; a key that does not exist counts as 0.',
  arity: 2,
  *run([, key], context) {
    yield* add(key, 1n, context);
  },
};

export const incrby: Command = {
  ...shared,
  name: 'incrby',
  summary: 'Adds to an integer; a key that does not exist counts as 0.',
  arity: 3,
  *run([, key, by], context) {
    yield* add(key, parseInteger(by), context);
  },
};

export const decr: Command = {
  ...shared,
  name: 'decr',
  summary: 'Subtracts one from an integer; a key that does not exist counts as 0.',
  arity: 2,
  *run([, key], context) {
    yield* add(key, -1n, context);
  },
};

export const decrby: Command = {
  ...shared,
  name: 'decrby',
  summary: 'Subtracts from an integer; a key that does not exist counts as 0.',
  arity: 3,
  *run([, key, argument], context) {
    const by = parseInteger(argument);
    // The one 64-bit integer whose negation is none.
    if (by === INTEGER_MIN) throw new ReplyError('ERR decrement would overflow');
    yield* add(key, -by, context);
  },
};

function* add(key: Buffer, by: bigint, context: CommandContext): Operation<void> {
  context.reply.integer(yield* context.store.increment(key, by));
  yield* context.changed('$', 'incrby', key);
}
