import type { Command } from '../../command.ts';

export const getdel: Command = {
  name: 'getdel',
  summary: 'Returns the value of a key and deletes the key.',
  group: 'string',
  arity: 2,
  flags: ['write', 'fast'],
  keys: [1, 1, 1],
  *run([, key], context) {
    const taken = yield* context.store.take(key);
    context.reply.bulkOrNull(taken);
    if (taken !== undefined) yield* context.changed('g', 'del', key);
  },
};
