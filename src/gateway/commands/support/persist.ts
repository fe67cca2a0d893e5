import type { CommandContext } from '../../command.ts';

/** Takes away when a key expires; false if it is absent or has no time to live. */
export function persistKey(key: Buffer, context: CommandContext): boolean {
  const { store } = context;
  const found = store.metadata(key);
  if (found === undefined || found.expiresAt === Number.POSITIVE_INFINITY) return false;
  const persisted = store.expire(key, { ttlMs: Number.POSITIVE_INFINITY });
  if (persisted) context.changed('g', 'persist', key);
  return persisted;
}
