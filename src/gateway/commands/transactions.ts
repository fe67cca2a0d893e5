import { checkKey } from '../../records/codec.ts';
import type { Operation } from '../../verbs/index.ts';
import { ReplyError } from '../arguments.ts';
import { type Command, type CommandContext, signature } from '../command.ts';
import { Transaction } from '../connections/connection-state.ts';
import { execute, resolve, writePart } from '../dispatch.ts';

export const multi: Command = {
  ...signature('multi', 'transactions', 'fast', 'loading', 'stale'),
  summary: 'Begins a transaction: queues commands until EXEC or DISCARD.',
  run(_request, { state, reply }) {
    if (state.transaction !== undefined) throw new ReplyError('ERR MULTI calls can not be nested');
    state.transaction = new Transaction();
    reply.ok();
  },
};

export const discard: Command = {
  ...signature('discard', 'transactions', 'fast', 'loading', 'stale'),
  summary: 'Ends a transaction without running its commands.',
  run(_request, { state, reply }) {
    if (state.transaction === undefined) throw new ReplyError('ERR DISCARD without MULTI');
    state.dropTransaction();
    state.unwatch();
    reply.ok();
  },
};

export const watch: Command = {
  ...signature('watch key [key ...]', 'transactions', 'fast', 'loading', 'stale'),
  summary: 'Makes EXEC run nothing if one of the keys has changed by then.',
  *run(request, { state, store, reply }) {
    if (state.transaction !== undefined) {
      throw new ReplyError('ERR WATCH inside MULTI is not allowed');
    }
    const { database } = state;
    const keys = request.slice(1);
    for (const key of keys) checkKey(key);
    for (const key of keys) {
      // The version at the first WATCH counts.
      if (state.watches(database, key)) continue;
      state.watch(database, key, (yield* store.metadata(key))?.version);
    }
    reply.ok();
  },
};

export const unwatch: Command = {
  ...signature('unwatch', 'transactions', 'fast', 'loading', 'stale'),
  summary: 'Forgets all watched keys.',
  run(_request, { state, reply }) {
    state.unwatch();
    reply.ok();
  },
};

export const exec: Command = {
  ...signature('exec', 'transactions', 'loading', 'stale'),
  summary: 'Runs the commands of a transaction, with none of other clients of this server between.',
  alone: true,
  *run(_request, context) {
    const { state, reply } = context;
    const { transaction } = state;
    if (transaction === undefined) throw new ReplyError('ERR EXEC without MULTI');
    const isCurrent = !transaction.isSpoilt && (yield* watchedAreUnchanged(context));
    state.unwatch();
    try {
      if (transaction.isSpoilt) {
        throw new ReplyError('EXECABORT Transaction discarded because of previous errors.');
      }
      if (isCurrent) yield* runAll(transaction, context);
      else reply.nullArray();
    } finally {
      state.dropTransaction();
    }
  },
};

/**
 * Compares the versions of watched keys, because other processes do not report changes. They can
 * still change a key between this check and the commands.
 */
function* watchedAreUnchanged({ state, server }: CommandContext): Operation<boolean> {
  for (const { database, key, version } of state.watched.values()) {
    const { store } = server.databases.get(database);
    if ((yield* store.metadata(key))?.version !== version) return false;
  }
  return true;
}

/** If a command fails, the others still run. */
function* runAll({ queued }: Transaction, context: CommandContext): Operation<void> {
  const { reply, state, server } = context;
  const lengthMax = reply.length + server.limits.replyBytesMax;
  /** Length of the reply before the command that exceeded the limit. */
  let keptLength: number | undefined;
  const isTooLong = () => keptLength !== undefined || reply.length > lengthMax;
  reply.array(queued.length);
  for (const request of queued) {
    const before = reply.length;
    const rest = yield* execute(resolve(request, context), request, context);
    while (rest !== undefined && !isTooLong() && (yield* writePart(rest, context)));
    server.totals.commands++;
    if (!isTooLong()) continue;
    // As in Redis, the other commands still run. The client gets the replies that fit, and then the
    // connection ends.
    keptLength ??= before;
    reply.truncate(keptLength);
    state.ended = true;
  }
}
