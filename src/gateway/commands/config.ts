import type { Command, ServerView } from '../command.ts';
import { Glob } from '../glob.ts';
import { requestLimits } from '../request-reader.ts';
import { container } from './support/container.ts';

/** What tools ask for before they use a server. All of it is fixed while the server runs. */
const PARAMETERS: Readonly<Record<string, (server: ServerView) => string | number>> = {
  appendonly: () => 'no',
  bind: (server) => server.host,
  'client-query-buffer-limit': (server) => server.limits.requestBytesMax,
  databases: () => 1,
  maxclients: (server) => server.maxConnections,
  maxmemory: () => 0,
  'maxmemory-clients': (server) => server.limits.clientBytesMax,
  'maxmemory-policy': () => 'noeviction',
  port: (server) => server.port,
  'proto-max-bulk-len': ({ limits }) => requestLimits(limits.requestBytesMax).bulkBytesMax,
  save: () => '',
  timeout: () => 0,
};

const NAMES: readonly string[] = Object.keys(PARAMETERS);

const get: Command = {
  name: 'config|get',
  summary: 'Returns the parameters whose names match one of the patterns.',
  group: 'server',
  arity: -3,
  flags: ['loading', 'stale'],
  run(request, { reply, server }) {
    const found = new Set<string>();
    for (const argument of request.slice(2)) {
      const pattern = new Glob(argument, { ignoreCase: true });
      for (const name of NAMES) if (pattern.matches(Buffer.from(name))) found.add(name);
    }
    const names = NAMES.filter((name) => found.has(name));
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
