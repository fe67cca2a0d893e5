import type { Operation } from '../../../verbs/index.ts';
import type { CommandContext } from '../../command.ts';

/** Takes away when a key expires; false if it is absent or has no time to live. */
export function* persistKey(key: Buffer, context: CommandContext): Operation<boolean> {
  const { store } = context;
  const found = yield* store.metadata(key);
  if (found === undefined || found.expiresAt === Number.POSITIVE_INFINITY) return false;
  const persisted = yield* store.expire(key, { ttlMs: Number.POSITIVE_INFINITY });
  if (persisted) yield* context.changed('g', 'persist', key);
  return persisted;
}
