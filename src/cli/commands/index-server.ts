import type { ServerRole } from '../../indexes/hstore/index-server.ts';
import type { EtcdCoordinator } from '../../store/servers/coordination/etcd-coordinator.ts';
import { defineCommand } from '../command.ts';
import { EXIT, UsageError } from '../failures.ts';
import { parseCount, plural } from '../sizes.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';

const ROLES: readonly ServerRole[] = ['hash', 'skiplist', 'both'];

function parseRole(text: string): ServerRole {
  const role = ROLES.find((one) => one === text);
  if (role !== undefined) return role;
  throw new UsageError(`'${text}' is not a role; there is ${ROLES.join(', ')}`);
}

export const indexServer = defineCommand({
  name: 'index-server',
  arguments: '<url>',
  summary: 'Be a server of a store with the index hstore, in a process of its own',
  details:
    '  The hash server applies writes, the skiplist server answers scans. A store works without\n' +
    '  them: its clients are the servers in turn. While another process has the role, this one\n' +
    '  stands by, and takes over when that one is gone. Ctrl-C or SIGTERM ends it.\n' +
    '  A server that stands still for 3 seconds while somebody waits for it is killed (on one\n' +
    '  machine) or cut off (by memory nodes), so that another one can go on.\n' +
    '  On the machine of a memory node with --file it may use that file while clients come by\n' +
    '  tcp://. Start a second one there to stand by: clients of a network cannot stand in.\n' +
    '  With --etcd the servers of a store are elected; clients never stand in for them then.',
  options: {
    role: { value: 'ROLE', read: parseRole, about: 'hash, skiplist or both (default: both)' },
    pairs: {
      value: 'N,…',
      read: (text) => text.split(',').map(parseCount(1)),
      about: 'only these pairs of the store, from 1 on (default: all; see create --set pairs=N)',
    },
    etcd: { value: 'HOSTS', about: 'let etcd elect: HOST:PORT of its members, with commas' },
    'etcd-ttl': {
      value: 'SECONDS',
      read: parseCount(1),
      about: 'until one that does not answer is deposed (default: 5)',
    },
    ...STORE_OPTION,
  },
  examples: [
    'index-server shm:demo --role hash',
    'index-server shm:demo --role skiplist',
    'index-server shm:demo --pairs 1,3',
    'index-server file:/data/pool --store demo --role hash',
    'index-server tcp://node:7471/demo --etcd etcd-1:2379,etcd-2:2379',
  ],
  async run(context, [given], options) {
    const { signal } = context;
    const url = sharedUrl(given, 'index-server shm:demo');
    const role = options.role ?? 'both';
    const { openIndexServer, serveIndex } = await import('../../store/servers/index-server.ts');
    const coordinator = await coordinatorOf(options.etcd, options['etcd-ttl']);
    const server = await openIndexServer(url, {
      ...storeNamed('index-server', options.store),
      ...(coordinator && { coordinator }),
      ...(options.pairs !== undefined && { pairs: options.pairs }),
      role,
    }).catch(async (error: unknown) => {
      await coordinator?.close();
      throw error;
    });
    try {
      await context.stdout.line(`Server of ${url}, role ${role}; standing by`);
      await serveIndex(server, signal, (held) => {
        const trouble = coordinator?.problem ? ` (etcd: ${coordinator.problem})` : '';
        const what = held === 0 ? `standing by${trouble}` : `holds ${plural(held, 'lease')}`;
        void context.stdout.line(what);
      });
      await context.stdout.line('stopped; the pool is kept');
      return EXIT.ok;
    } finally {
      await server.close();
      await coordinator?.close();
    }
  },
});

async function coordinatorOf(
  hosts: string | undefined,
  ttl: number | undefined,
): Promise<EtcdCoordinator | undefined> {
  if (hosts === undefined) {
    if (ttl !== undefined) throw new UsageError('--etcd-ttl goes with --etcd');
    return undefined;
  }
  const { EtcdCoordinator } = await import('../../store/servers/coordination/etcd-coordinator.ts');
  return EtcdCoordinator.connect({ hosts: hosts.split(','), ttl: ttl ?? 5 });
}
