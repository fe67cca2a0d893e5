import type { Command } from '../../command.ts';
import { parseTimeAhead, type TimeUnit } from '../support/expiry.ts';

export const setex = setting('setex', 'seconds', { seconds: true, absolute: false });
export const psetex = setting('psetex', 'milliseconds', { seconds: false, absolute: false });

function setting(name: string, unitName: string, unit: TimeUnit): Command {
  return {
    name,
    summary: `Sets a key that expires after so many ${unitName}.`,
    group: 'string',
    arity: 4,
    flags: ['write', 'denyoom'],
    keys: [1, 1, 1],
    *run([, key, time, value], context) {
      yield* context.store.set(key, value, { expiresAt: parseTimeAhead(time, unit, name) });
      context.reply.ok();
      yield* context.changed('$', 'set', key);
      yield* context.changed('g', 'expire', key);
    },
  };
}
