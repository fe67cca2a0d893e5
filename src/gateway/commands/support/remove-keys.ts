import type { CommandContext } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';

/** DEL and UNLINK. */
export function removeKeys(request: Request, context: CommandContext): void {
  const { store, reply, server } = context;
  const keys = request.slice(1);
  if (!server.settings.notifications.isOn) {
    reply.integer(store.deleteMany(keys));
    return;
  }
  const removed = keys.filter((key) => store.delete(key));
  reply.integer(removed.length);
  for (const key of removed) context.changed('g', 'del', key);
}
