import { ReplyError } from '../arguments.ts';
import type { Command, CommandContext } from '../command.ts';
import type { Request } from '../protocol/request-reader.ts';

/** What runs at once although a transaction is being gathered. */
const NOT_QUEUED: ReadonlySet<string> = new Set([
  'exec',
  'discard',
  'multi',
  'watch',
  'quit',
  'reset',
]);

/** What a subscriber may send in RESP2, where it could not tell replies from messages. */
const OF_SUBSCRIBERS: ReadonlySet<string> = new Set([
  'ping',
  'subscribe',
  'unsubscribe',
  'psubscribe',
  'punsubscribe',
  'quit',
  'reset',
]);

/**
 * Decides about a command of a connection that is not in its plain state: whether it runs now. One
 * that is queued has its reply; one that is refused raises a ReplyError.
 */
export function admit(command: Command, request: Request, context: CommandContext): boolean {
  const { state, reply } = context;
  if (state.user === '' && !command.flags.includes('no_auth')) {
    throw new ReplyError('NOAUTH Authentication required.');
  }
  if (state.isSubscriber && reply.protocol === 2 && !OF_SUBSCRIBERS.has(command.name)) {
    throw new ReplyError(
      `ERR Can't execute '${command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / ` +
        'QUIT / RESET are allowed in this context',
    );
  }
  if (state.transaction === undefined || NOT_QUEUED.has(command.name)) return true;
  const writes = command.flags.includes('write');
  state.heldBytes += state.transaction.queue(request, writes);
  reply.simple('QUEUED');
  return false;
}
