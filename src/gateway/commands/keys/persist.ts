import type { Command } from '../../command.ts';
import { persistKey } from '../support/persist.ts';

export const persist: Command = {
  name: 'persist',
  summary: 'Has a key not expire any more; returns 1 if it would have.',
  group: 'generic',
  arity: 2,
  flags: ['write', 'fast'],
  keys: [1, 1, 1],
  *run([, key], context) {
    context.reply.integer((yield* persistKey(key, context)) ? 1 : 0);
  },
};
