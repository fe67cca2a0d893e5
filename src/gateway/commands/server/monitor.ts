import { ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';

export const monitor: Command = {
  name: 'monitor',
  summary: 'Shows every command that this server runs, until RESET or the end of the connection.',
  group: 'server',
  arity: 1,
  flags: ['admin', 'loading', 'stale'],
  run(_request, { reply, server, state, client }) {
    // Before EXEC a transaction queues the command instead of running it.
    if (state.transaction !== undefined) {
      throw new ReplyError("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    state.isMonitor = true;
    server.monitors.add(client);
    reply.ok();
  },
};
