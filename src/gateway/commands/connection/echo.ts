import type { Command } from '../../command.ts';

export const echo: Command = {
  name: 'echo',
  summary: 'Returns its argument.',
  group: 'connection',
  arity: 2,
  flags: ['fast', 'loading', 'stale'],
  run(request, { reply }) {
    reply.bulk(request[1]);
  },
};
