import { parseInteger, ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { container } from '../support/container.ts';

const shared = { group: 'server', flags: ['admin', 'loading', 'stale'] } as const;
const COUNT_DEFAULT = 10n;
const NOT_A_COUNT = 'ERR count should be greater than or equal to -1';

const get: Command = {
  ...shared,
  name: 'slowlog|get',
  summary: 'Returns the latest slow commands: 10, or so many, -1 for all.',
  arity: -2,
  run(request, { reply, server: { slowLog } }) {
    const count = request.length > 2 ? parseInteger(request[2], NOT_A_COUNT) : COUNT_DEFAULT;
    if (count < -1n) throw new ReplyError(NOT_A_COUNT);
    const isAll = count < 0n || count > slowLog.length;
    const commands = count === 0n ? [] : slowLog.latest(isAll ? slowLog.length : Number(count));
    reply.array(commands.length);
    for (const { id, at, microseconds, words, address, name } of commands) {
      reply.array(6);
      reply.integer(id);
      reply.integer(at);
      reply.integer(microseconds);
      reply.array(words.length);
      for (const word of words) reply.bulk(word);
      reply.bulk(address);
      reply.bulk(name);
    }
  },
};

const len: Command = {
  ...shared,
  name: 'slowlog|len',
  summary: 'Returns how many slow commands are kept.',
  arity: 2,
  run(_request, { reply, server }) {
    reply.integer(server.slowLog.length);
  },
};

const reset: Command = {
  ...shared,
  name: 'slowlog|reset',
  summary: 'Forgets the slow commands.',
  arity: 2,
  run(_request, { reply, server }) {
    server.slowLog.clear();
    reply.ok();
  },
};

export const slowlog = container({
  ...shared,
  name: 'slowlog',
  summary: 'Tells of commands that took longer than slowlog-log-slower-than microseconds.',
  arity: -2,
  subcommands: [get, len, reset],
});
