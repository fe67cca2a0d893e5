import type { Command } from '../../command.ts';

export const quit: Command = {
  name: 'quit',
  summary: 'Closes the connection after the replies to earlier commands.',
  group: 'connection',
  arity: -1,
  flags: ['fast', 'loading', 'no_auth', 'stale'],
  run(_request, { reply, state }) {
    state.ended = true;
    reply.ok();
  },
};
