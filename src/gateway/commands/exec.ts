import { type Command, ReplyError } from '../command.ts';

export const exec: Command = {
  name: 'exec',
  summary: 'Ends a transaction that was refused, none of whose commands has run.',
  group: 'transactions',
  arity: 1,
  flags: ['loading', 'stale'],
  run(_request, { state }) {
    if (!state.inRefusedTransaction) throw new ReplyError('ERR EXEC without MULTI');
    state.inRefusedTransaction = false;
    // Clients know this text: they report the errors of the commands before it.
    throw new ReplyError('EXECABORT Transaction discarded because of previous errors.');
  },
};
