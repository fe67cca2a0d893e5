import type { Operation } from '../../../verbs/index.ts';
import type { CommandContext } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';

/** DEL and UNLINK. */
export function* removeKeys(request: Request, context: CommandContext): Operation<void> {
  const { store, reply, server } = context;
  const keys = request.slice(1);
  if (!server.settings.notifications.isOn) {
    reply.integer(yield* store.deleteMany(keys));
    return;
  }
  const removed: Buffer[] = [];
  for (const key of keys) if (yield* store.delete(key)) removed.push(key);
  reply.integer(removed.length);
  for (const key of removed) yield* context.changed('g', 'del', key);
}
