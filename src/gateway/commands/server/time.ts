import type { Command } from '../../command.ts';

export const time: Command = {
  name: 'time',
  summary: 'Returns the time of day in seconds since 1970, and the microseconds beyond them.',
  group: 'server',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { reply }) {
    const now = Date.now();
    reply.array(2);
    reply.bulk(String(Math.floor(now / 1000)));
    reply.bulk(String((now % 1000) * 1000));
  },
};
