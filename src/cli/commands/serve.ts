import type { PoolHandle } from '../../store/api.ts';
import { defineCommand } from '../command.ts';
import type { Context, Gateway, Library } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatSize, parseCount, parseSize } from '../sizes.ts';
import {
  definedOnly,
  POOL_OPTIONS,
  poolOptions,
  STORE_OPTION,
  storeNamed,
} from '../store-options.ts';
import { type Style, styleFor } from '../terminal/style.ts';
import { facts } from '../terminal/table.ts';

const DEFAULT_URL = 'shm:stepwell';
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 6380;

export const serve = defineCommand({
  name: 'serve',
  arguments: '[url]',
  summary: `Serve a store to Redis clients (default pool: ${DEFAULT_URL})`,
  details:
    '  Makes the pool when it does not exist, the store on the index race: for ranges do\n' +
    '  `create URL --index chime` first. Ctrl-C or SIGTERM ends it and keeps the pool; a second\n' +
    '  Ctrl-C ends at once. Any number of servers and programs can share one pool.\n' +
    '  A pool on memory nodes (tcp://…) is served too, one command after the other: each waits\n' +
    '  for the network, so start several servers, or use the library where rates matter.\n' +
    '  A client that does not read is not served on while 1 MiB waits for it. When all clients\n' +
    '  together hold more than --max-client-memory, the one that holds most is closed.',
  options: {
    host: { value: 'HOST', about: `Loopback address to listen on (default: ${DEFAULT_HOST})` },
    port: {
      value: 'PORT',
      read: parseCount(0, 65_535),
      about: `Port to listen on, 0 for any free one (default: ${DEFAULT_PORT})`,
    },
    'max-connections': { value: 'N', read: parseCount(1), about: 'Refuse more clients than this' },
    'max-request': {
      value: 'SIZE',
      read: parseSize,
      about: 'Refuse longer requests, before they are buffered (default: 66m)',
    },
    'max-client-memory': {
      value: 'SIZE',
      read: parseSize,
      about: 'What all clients may hold in unfinished requests and unread replies (default: 256m)',
    },
    ...STORE_OPTION,
    ...POOL_OPTIONS,
  },
  examples: ['serve', 'serve shm:demo --port 6390 --store sessions', 'serve tcp://127.0.0.1:7471'],
  async run(context, [url = DEFAULT_URL], options) {
    // Asked for first: a Ctrl-C from here on must find its handler.
    const { signal } = context;
    const library = await context.library();
    const serveRedis = await context.serveRedis();
    const store = await library.openBlocking(url, {
      ...storeNamed('serve', options.store),
      ...poolOptions(options),
      create: true,
      values: 'bytes',
    });
    try {
      const place = await describePlace(library, store.handle, url);
      const gateway = await serveRedis({
        store,
        host: options.host ?? DEFAULT_HOST,
        port: options.port ?? DEFAULT_PORT,
        ...definedOnly({
          maxConnections: options['max-connections'],
          maxRequestBytes: options['max-request'],
          maxClientBytes: options['max-client-memory'],
        }),
        onError: (error) => complain(context, error),
      });
      await serveUntil(signal, gateway, () => announce(context, gateway, url, place));
      await context.stdout.line('stopped; the pool is kept');
      return EXIT.ok;
    } finally {
      store.close();
    }
  },
});

async function serveUntil(
  signal: AbortSignal,
  gateway: Gateway,
  announced: () => Promise<void>,
): Promise<void> {
  try {
    await announced();
    if (signal.aborted) return;
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  } finally {
    await gateway.close();
  }
}

async function announce(
  context: Context,
  { address }: Gateway,
  url: string,
  place: string,
): Promise<void> {
  const style = styleFor(context.stdout.isTTY, context.env);
  const { host, port } = address;
  const shown = host.includes(':') ? `[${host}]` : host;
  await context.stdout.line(`Serving the Redis protocol on ${style.bold(`${shown}:${port}`)}`);
  await context.stdout.line(hints(url, host, port, place, style));
  await context.stdout.line('Ctrl-C stops serving and keeps the pool.');
}

function hints(url: string, host: string, port: number, place: string, style: Style): string {
  const elsewhere = host === DEFAULT_HOST ? '' : `-h ${host} `;
  const pairs: [string, string][] = [
    ['connect:', `redis-cli ${elsewhere}-p ${port}`],
    ['pool:', place],
  ];
  // Only this process can see into a pool in its own memory.
  if (!url.startsWith('memory:')) pairs.push(['look inside:', `npx stepwell inspect ${url}`]);
  return facts(
    pairs.map(([name, text]) => [`  ${name}`, text]),
    style,
  );
}

async function describePlace(library: Library, pool: PoolHandle, url: string): Promise<string> {
  const { path, chunks, chunkSize, sizeMax } = await library.inspect(pool);
  const used = formatSize(chunks.used * chunkSize);
  return `${path === '' ? url : path} (${used} in use, up to ${formatSize(sizeMax)})`;
}

function complain(context: Context, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  context.stderr.writeNow(`stepwell: ${message}\n`);
}
