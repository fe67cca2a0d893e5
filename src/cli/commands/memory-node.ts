import { urlHost } from '../../fabrics/tcp/endpoint.ts';
import { secretFrom } from '../../store/remote/address.ts';
import type { RunningNode } from '../../store/servers/memory-node.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatSize, parseCount, parseSeconds, parseSize } from '../sizes.ts';
import { definedOnly, listenPlace } from '../store-options.ts';
import { tlsFrom } from '../tls-options.ts';

const DEFAULT_LISTEN = '127.0.0.1:7471';
const EXAMPLE = 'memory-node --listen 127.0.0.1:7471 --size 4g';

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
    'tls-cert': { value: 'PATH', about: 'Listen with TLS: the certificate, in PEM' },
    'tls-key': { value: 'PATH', about: 'Its key, in PEM' },
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
    EXAMPLE,
    'memory-node --fabric ucx --device mlx5_0:1 --listen 0.0.0.0:7471 --secret-file secret',
    'memory-node --listen 0.0.0.0:7471 --file /data/pool --secret-file secret',
  ],
  async run(context, _words, options) {
    const { signal } = context;
    const start = await context.memoryNodes();
    const node = await start({
      ...listenPlace(options.listen ?? DEFAULT_LISTEN, EXAMPLE),
      ...definedOnly({
        size: options.size,
        regionSize: options['region-size'],
        file: options.file,
        secret: secretFrom(undefined, context.env, options['secret-file']),
        readSecret: secretFrom(undefined, {}, options['read-secret-file']),
        tls: tlsFrom(options['tls-cert'], options['tls-key'], EXAMPLE),
        maxConnections: options['max-connections'],
        outstandingBytesMax: options['max-outstanding'],
        bufferedBytesMax: options['max-buffered'],
        frameBytesMax: options['max-frame'],
        fabric: options.fabric as 'tcp' | 'ucx' | undefined,
        device: options.device,
        transports: options.transports,
        leaseMs: options.lease === undefined ? undefined : 1000 * options.lease,
      }),
    });
    await announce(context, node, options);
    const stopped = new Promise((resolve) => {
      if (signal.aborted) resolve(undefined);
      signal.addEventListener('abort', resolve, { once: true });
    });
    // A node whose thread fails ends with its error.
    await Promise.race([stopped, node.ended]);
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
