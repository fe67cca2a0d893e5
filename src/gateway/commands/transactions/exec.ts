import { ReplyError } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import type { Transaction } from '../../connections/transaction.ts';
import { execute, resolve, writePart } from '../../dispatch.ts';
import { ReplyWriter } from '../../protocol/reply.ts';

export const exec: Command = {
  name: 'exec',
  summary: 'Runs the commands of a transaction; none of another client of this server in between.',
  group: 'transactions',
  arity: 1,
  flags: ['loading', 'stale'],
  run(_request, context) {
    const { state, reply } = context;
    const { transaction } = state;
    if (transaction === undefined) throw new ReplyError('ERR EXEC without MULTI');
    const isCurrent = !transaction.isSpoilt && watchedAreUnchanged(context);
    state.dropTransaction();
    state.unwatch();
    if (transaction.isSpoilt) {
      throw new ReplyError('EXECABORT Transaction discarded because of previous errors.');
    }
    if (isCurrent) runAll(transaction, context);
    else reply.nullArray();
  },
};

/** Another process can still change a key between this look and the commands. */
function watchedAreUnchanged({ state, server }: CommandContext): boolean {
  return state.watched.every(({ database, key, version }) => {
    const { store } = server.databases.get(database);
    return store.metadata(key)?.version === version;
  });
}

/** A command that fails does not keep the others from running. */
function runAll({ queued }: Transaction, context: CommandContext): void {
  const { reply, state, server } = context;
  reply.array(queued.length);
  let target = context;
  for (const request of queued) {
    const rest = execute(resolve(request, context), request, target);
    while (rest !== undefined && writePart(rest, target));
    server.totals.commands++;
    if (target.reply.length <= server.limits.replyBytesMax) continue;
    // As in Redis all of it runs, and a client that asked for too much learns no more than that.
    state.ended = true;
    target = withoutReply(context);
  }
}

function withoutReply(context: CommandContext): CommandContext {
  return Object.create(context, { reply: { value: new ReplyWriter() } });
}
