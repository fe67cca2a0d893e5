import type { Command } from '../../command.ts';
import { leaveAll } from '../support/subscriptions.ts';

export const reset: Command = {
  name: 'reset',
  summary: 'Makes the connection one that has just begun: RESP2, no name, database 0.',
  group: 'connection',
  arity: 1,
  flags: ['fast', 'loading', 'no_auth', 'stale'],
  *run(_request, context) {
    const { reply, state, server, client } = context;
    yield* leaveAll(context);
    server.monitors.remove(client);
    state.reset();
    context.select(0);
    reply.protocol = 2;
    reply.simple('RESET');
  },
};
