import { ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { Transaction } from '../../connections/transaction.ts';

export const multi: Command = {
  name: 'multi',
  summary: 'Begins a transaction: what follows is gathered up to EXEC or DISCARD.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state, reply }) {
    if (state.transaction !== undefined) throw new ReplyError('ERR MULTI calls can not be nested');
    state.transaction = new Transaction();
    reply.ok();
  },
};

export const discard: Command = {
  name: 'discard',
  summary: 'Ends a transaction, none of whose commands is run.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state, reply }) {
    if (state.transaction === undefined) throw new ReplyError('ERR DISCARD without MULTI');
    state.dropTransaction();
    state.unwatch();
    reply.ok();
  },
};
