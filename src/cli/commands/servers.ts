import { urlHost } from '../../fabrics/tcp/endpoint.ts';
import type { ServerRole } from '../../indexes/hstore/index-server.ts';
import { isRemote, secretFrom } from '../../store/remote/address.ts';
import type { MemoryNodeReport, MemoryNodesReport } from '../../store/remote/memory-nodes.ts';
import type { EtcdCoordinator } from '../../store/servers/coordination/etcd-coordinator.ts';
import type { RunningNode } from '../../store/servers/memory-node.ts';
import { formatCount, formatSize } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import { aborted, type Context, printReport } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { parseCount, parseSeconds, parseSize, plural } from '../sizes.ts';
import { listenPlace, STORE_OPTION, storeNamed, TLS_OPTIONS, tlsFrom } from '../store-options.ts';
import { Progress } from '../terminal/progress.ts';
import type { Style } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const DEFAULT_LISTEN = '127.0.0.1:7471';
export const memoryNode = defineCommand({
  name: 'memory-node',
  arguments: '',
  summary: 'Lend memory of this machine to clients on others',
  details:
    '  A passive node: it executes the verbs of its clients and knows nothing of keys. Clients\n' +
    '  open tcp://HOST:PORT/STORE, or tcp://A:7471,B:7471/STORE over several nodes, whose order\n' +
    '  must stay the same. Listening beyond loopback needs a secret: STEPWELL_SECRET in the\n' +
    '  environment of nodes and clients, or a file. Ctrl-C or SIGTERM ends the node.\n' +
    '  With --fabric ucx verbs go by UCX (RDMA, shared memory; Debian: libucx0 on both sides);\n' +
    '  clients open ucx://HOST:PORT/STORE. Whoever reaches the device can change all memory of\n' +
    '  the node, secret or not: use a network that you trust. See docs/rdma.md.',
  options: {
    listen: {
      value: 'HOST:PORT',
      about: `Where to listen, port 0 for any free one (default: ${DEFAULT_LISTEN})`,
    },
    size: {
      value: 'SIZE',
      read: parseSize,
      about: 'Memory to lend (default: 1g); a file that is there keeps its size',
    },
    'region-size': {
      value: 'SIZE',
      read: parseSize,
      about: 'Largest part in one piece, the same on all nodes of a pool (default: up to 1g)',
    },
    file: { value: 'PATH', about: 'Keep the memory in a file, so that it outlives the node' },
    'secret-file': { value: 'PATH', about: 'Read the secret from a file' },
    'read-secret-file': {
      value: 'PATH',
      about: 'Read another secret from a file: who knows only that may only read',
    },
    ...TLS_OPTIONS,
    'max-connections': {
      value: 'N',
      read: parseCount(1),
      about: 'Refuse more clients (default: 1024)',
    },
    'max-outstanding': {
      value: 'SIZE',
      read: parseSize,
      about: 'What a client may have under way (default: 8m)',
    },
    'max-buffered': {
      value: 'SIZE',
      read: parseSize,
      about: 'Answers that may wait for all clients together (default: 64m)',
    },
    'max-frame': {
      value: 'SIZE',
      read: parseSize,
      about: 'Longest frame of the wire, 8k to 1m (default: 1m); clients keep to it',
    },
    fabric: { value: 'NAME', about: 'How verbs reach the memory: tcp (default), or ucx for RDMA' },
    device: {
      value: 'DEVICE',
      about: 'UCX: the network device, such as mlx5_0:1 (default: this machine alone)',
    },
    transports: {
      value: 'NAMES',
      about: 'UCX: tcp, posix, sysv, rc, dc … (default: rc with a device, else tcp)',
    },
    lease: {
      value: 'SECONDS',
      read: parseSeconds,
      about: 'Revoke a client that is silent for so long (default: 10)',
    },
  },
  examples: [
    'memory-node --listen 127.0.0.1:7471 --size 4g',
    'memory-node --fabric ucx --device mlx5_0:1 --listen 0.0.0.0:7471 --secret-file secret',
    'memory-node --listen 0.0.0.0:7471 --file /data/pool --secret-file secret',
  ],
  async run(context, _words, options) {
    const { signal } = context;
    const start = await context.memoryNodes();
    const node = await start({
      ...listenPlace(options.listen ?? DEFAULT_LISTEN),
      size: options.size,
      regionSize: options['region-size'],
      file: options.file,
      secret: secretFrom(undefined, context.env, options['secret-file']),
      readSecret: secretFrom(undefined, {}, options['read-secret-file']),
      tls: tlsFrom(options['tls-cert'], options['tls-key']),
      maxConnections: options['max-connections'],
      outstandingBytesMax: options['max-outstanding'],
      bufferedBytesMax: options['max-buffered'],
      frameBytesMax: options['max-frame'],
      fabric: options.fabric as 'tcp' | 'ucx' | undefined,
      device: options.device,
      transports: options.transports,
      leaseMs: options.lease === undefined ? undefined : 1000 * options.lease,
    });
    await announce(context, node, options);
    // If the node's thread fails, the command ends with its error.
    await Promise.race([aborted(signal), node.ended]);
    await node.stop();
    const kept = options.file === undefined ? 'its memory is gone' : `${options.file} is kept`;
    await context.stdout.line(`stopped; ${kept}`);
    return EXIT.ok;
  },
});

async function announce(
  context: Context,
  { host, port, size }: RunningNode,
  options: { file?: string; fabric?: string; 'tls-cert'?: string },
): Promise<void> {
  const shown = `${urlHost(host)}:${port}`;
  const scheme = options['tls-cert'] === undefined ? (options.fabric ?? 'tcp') : 'tls';
  const where = options.file === undefined ? 'in memory' : `in ${options.file}`;
  await context.stdout.line(`Memory node on ${shown}: ${formatSize(size)} ${where}`);
  await context.stdout.line(`  open it:  npx stepwell set ${scheme}://${shown} KEY VALUE`);
  await context.stdout.line('Ctrl-C ends it.');
}

export const nodes = defineCommand({
  name: 'nodes',
  arguments: '<url>',
  summary: 'Show what of a store is on which memory node, and move its index to others',
  details:
    '  A store with the index shard keeps each part of its tables on one node. --add and\n' +
    '  --remove name nodes of the pool, by number or HOST:PORT; parts that are elsewhere than\n' +
    '  they are to be are moved while clients go on. Run it again when it was interrupted.\n' +
    '  Records stay where they are: a node without parts is still needed.',
  options: {
    add: { value: 'NODE', about: 'Place parts of the index on this node too' },
    remove: { value: 'NODE', about: 'Place none on this node' },
    ...STORE_OPTION,
    json: { about: 'Print the report as JSON' },
  },
  examples: ['nodes tcp://a:7471,b:7471/users', 'nodes tcp://a:7471,b:7471/users --remove 2'],
  async run(context, [url], { add, remove, store, json }) {
    if (!isRemote(url)) throw new UsageError('only a tcp: pool has memory nodes');
    const { memoryNodes } = await import('../../store/remote/memory-nodes.ts');
    const progress = new Progress(context, 'moving', 'steps');
    const report = await memoryNodes(url, {
      ...storeNamed('nodes', store),
      add: add?.split(','),
      remove: remove?.split(','),
      onProgress: (done, total) => progress.update(done, total),
      signal: (add ?? remove) ? context.signal : undefined,
    });
    progress.clear();
    await printReport(context, report, json, describeNodes);
    return EXIT.ok;
  },
});

function describeNodes(
  { nodes: all, index, store, moved }: MemoryNodesReport,
  style: Style,
): string {
  const placed = all.some((node) => node.parts !== undefined);
  const placing = placed ? ' | PLACED | PARTS: | TABLES:' : '';
  const heads = `NODE: | ADDRESS${placing} | TABLE CHUNKS: | RECORD CHUNKS: | SPANS:`;
  const rows = all.map((node) => [
    String(node.number),
    node.address,
    ...(placed ? placement(node) : []),
    ...[node.memory.tables, node.memory.records, node.memory.spans].map(formatSize),
  ]);
  const what = moved === 0 ? [] : [`${plural(moved, 'part')} moved`];
  return [`store ${store}, index ${index}`, table(heads, rows, style), ...what].join('\n');
}

function placement({ placed, parts = 0, tables = 0 }: MemoryNodeReport): string[] {
  return [placed ? 'yes' : 'no', formatCount(parts), formatSize(tables)];
}

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
  async run(context, [url], options) {
    const { signal } = context;
    const role = options.role ?? 'both';
    const { openIndexServer, serveIndex } = await import('../../store/servers/index-server.ts');
    const coordinator = await coordinatorOf(options.etcd, options['etcd-ttl']);
    const server = await openIndexServer(url, {
      ...storeNamed('index-server', options.store),
      coordinator,
      pairs: options.pairs,
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
