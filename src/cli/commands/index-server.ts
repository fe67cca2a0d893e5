import type { ServerRole } from '../../store/index-server.ts';
import { defineCommand } from '../command.ts';
import { EXIT, UsageError } from '../failures.ts';
import { plural } from '../sizes.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';

const ROLES: readonly string[] = ['hash', 'skiplist', 'both'];

export const indexServer = defineCommand({
  name: 'index-server',
  arguments: '<url>',
  summary: 'Be a server of a store with the index hstore, in a process of its own',
  details:
    '  The hash server applies writes, the skiplist server answers scans. A store works without\n' +
    '  them: its clients are the servers in turn. While another process has the role, this one\n' +
    '  stands by, and takes over when that one is gone. Ctrl-C or SIGTERM ends it.',
  options: {
    role: { value: 'ROLE', about: 'hash, skiplist or both (default: both)' },
    ...STORE_OPTION,
  },
  examples: ['index-server shm:demo --role hash', 'index-server shm:demo --role skiplist'],
  async run(context, [given], options) {
    const { signal } = context;
    const url = sharedUrl(given, 'index-server shm:demo');
    const role = options.role ?? 'both';
    if (!ROLES.includes(role)) throw new UsageError(`a role is hash, skiplist or both: ${role}`);
    const { openIndexServer, serveIndex } = await import('../../store/index-server.ts');
    const server = await openIndexServer(url, {
      ...storeNamed('index-server', options.store),
      role: role as ServerRole,
    });
    try {
      await context.stdout.line(`Server of ${url}, role ${role}; standing by`);
      await serveIndex(server, signal, (held) => {
        const what = held === 0 ? 'standing by' : `holds ${plural(held, 'lease')}`;
        void context.stdout.line(what);
      });
      await context.stdout.line('stopped; the pool is kept');
      return EXIT.ok;
    } finally {
      await server.close();
    }
  },
});
