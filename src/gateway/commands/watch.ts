import { type Command, ReplyError } from '../command.ts';

export const watch: Command = {
  name: 'watch',
  summary: 'Refused: there are no transactions.',
  group: 'transactions',
  arity: -2,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state }) {
    if (state.inRefusedTransaction) throw new ReplyError('ERR WATCH inside MULTI is not allowed');
    // The MULTI that makes use of it is refused, too.
    throw new ReplyError('ERR WATCH is not supported: there are no transactions');
  },
};
