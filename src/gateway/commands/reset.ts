import type { Command } from '../command.ts';

export const reset: Command = {
  name: 'reset',
  summary: 'Makes the connection one that has just begun: RESP2, no name, nothing refused.',
  group: 'connection',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { reply, state }) {
    state.reset();
    reply.protocol = 2;
    reply.simple('RESET');
  },
};
