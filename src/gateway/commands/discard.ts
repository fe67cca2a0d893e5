import { type Command, ReplyError } from '../command.ts';

export const discard: Command = {
  name: 'discard',
  summary: 'Ends a transaction that was refused, none of whose commands has run.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { session, reply }) {
    if (!session.inRefusedTransaction) throw new ReplyError('ERR DISCARD without MULTI');
    session.inRefusedTransaction = false;
    reply.ok();
  },
};
