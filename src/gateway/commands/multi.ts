import { type Command, ReplyError } from '../command.ts';

export const multi: Command = {
  name: 'multi',
  summary: 'Refused: there are no transactions. What follows is refused up to EXEC or DISCARD.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state }) {
    if (state.inRefusedTransaction) throw new ReplyError('ERR MULTI calls can not be nested');
    state.inRefusedTransaction = true;
    throw new ReplyError('ERR MULTI is not supported; what follows is not run up to EXEC');
  },
};
