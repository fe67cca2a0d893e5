import type { Command } from '../../command.ts';

export const getset: Command = {
  name: 'getset',
  summary: 'Sets a key and returns its former value.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  *run([, key, value], context) {
    const { previous } = yield* context.store.write(key, value, { previous: true });
    context.reply.bulkOrNull(previous);
    yield* context.changed('$', 'set', key);
  },
};
