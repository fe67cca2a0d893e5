import { type Command, ReplyError } from '../command.ts';

export const discard: Command = {
  name: 'discard',
  summary: 'Ends a transaction that was refused, none of whose commands has run.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state, reply }) {
    if (!state.inRefusedTransaction) throw new ReplyError('ERR DISCARD without MULTI');
    state.inRefusedTransaction = false;
    reply.ok();
  },
};
