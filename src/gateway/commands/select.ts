import { type Command, parseInteger, ReplyError } from '../command.ts';

export const select: Command = {
  name: 'select',
  summary: 'Chooses the database; there is only database 0.',
  group: 'connection',
  arity: 2,
  flags: ['fast', 'loading', 'stale'],
  run(request, { reply, state }) {
    state.inRefusedDatabase = true;
    if (parseInteger(request[1]) !== 0n) throw new ReplyError('ERR DB index is out of range');
    state.inRefusedDatabase = false;
    reply.ok();
  },
};
