import type { Command } from '../../command.ts';

export const setnx: Command = {
  name: 'setnx',
  summary: 'Sets a key that does not exist yet.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  *run([, key, value], context) {
    const inserted = yield* context.store.insert(key, value);
    context.reply.integer(inserted ? 1 : 0);
    if (inserted) yield* context.changed('$', 'set', key);
  },
};
