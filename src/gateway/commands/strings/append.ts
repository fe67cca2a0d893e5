import type { Command } from '../../command.ts';
import { modify } from '../support/modify.ts';
import { checkLength } from '../support/string-length.ts';

export const append: Command = {
  name: 'append',
  summary: 'Appends to a value, which is empty for a new key; returns the length in bytes.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
  *run([, key, more], context) {
    let length = 0;
    yield* modify(context.store, key, (old) => {
      const value = old === undefined ? more : Buffer.concat([old, more]);
      length = value.length;
      checkLength(length, context);
      return value;
    });
    context.reply.integer(length);
    yield* context.changed('$', 'append', key);
  },
};
