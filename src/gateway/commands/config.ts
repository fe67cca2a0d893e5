import type { Command, ServerView } from '../command.ts';
import { Glob } from '../glob.ts';
import { REQUEST_LIMITS } from '../request-reader.ts';
import { container } from './support/container.ts';

/** What tools ask for before they use a server. All of it is fixed while the server runs. */
const PARAMETERS: Readonly<Record<string, (server: ServerView) => string | number>> = {
  appendonly: () => 'no',
  bind: (server) => server.host,
  'client-query-buffer-limit': () => REQUEST_LIMITS.requestBytesMax,
  databases: () => 1,
  maxclients: (server) => server.maxConnections,
  maxmemory: () => 0,
  'maxmemory-policy': () => 'noeviction',
  port: (server) => server.port,
  'proto-max-bulk-len': () => REQUEST_LIMITS.bulkBytesMax,
  save: () => '',
  timeout: () => 0,
};

const get: Command = {
  name: 'config|get',
  summary: 'Returns the parameters whose names match one of the patterns.',
  group: 'server',
  arity: -3,
  flags: ['loading', 'stale'],
  run(request, { reply, server }) {
    const patterns = request.slice(2).map((pattern) => new Glob(pattern, { ignoreCase: true }));
    const names = Object.keys(PARAMETERS).filter((name) => {
      const bytes = Buffer.from(name);
      return patterns.some((pattern) => pattern.matches(bytes));
    });
    reply.map(names.length);
    for (const name of names) {
      reply.bulk(name);
      reply.bulk(String(PARAMETERS[name](server)));
    }
  },
};

export const config = container({
  name: 'config',
  summary: 'Reads the parameters of the server.',
  group: 'server',
  arity: -2,
  flags: ['loading', 'stale'],
  subcommands: [get],
});
