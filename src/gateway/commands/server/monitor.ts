import type { Command } from '../../command.ts';

export const monitor: Command = {
  name: 'monitor',
  summary: 'Shows every command that this server runs, until RESET or the end of the connection.',
  group: 'server',
  arity: 1,
  flags: ['admin', 'loading', 'stale'],
  run(_request, { reply, server, state, client }) {
    state.isMonitor = true;
    server.monitors.add(client);
    reply.ok();
  },
};
