import { hasCode } from '../../errors.ts';
import { urlHost } from '../../fabrics/tcp/endpoint.ts';
import type { GatewayOptions } from '../../gateway/server.ts';
import type { OpenOptions, PoolHandle } from '../../store/api.ts';
import { isRemote } from '../../store/remote/address.ts';
import { formatSize } from '../../store/watching/units.ts';
import type { WebServer } from '../../web/server.ts';
import { defineCommand } from '../command.ts';
import { aborted, type Context, type Gateway, type Library } from '../context.ts';
import { EXIT } from '../failures.ts';
import { parseCount, parseSize } from '../sizes.ts';
import {
  POOL_OPTIONS,
  poolOptions,
  STORE_OPTION,
  storeNamed,
  TLS_OPTIONS,
  tlsFrom,
} from '../store-options.ts';
import { type Style, styleFor } from '../terminal/style.ts';
import { facts } from '../terminal/table.ts';
import { passwordsFrom, startPage } from './web.ts';

const DEFAULT_URL = 'shm:stepwell';
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 6380;
/** As many as Redis has. */
const DATABASES_MAX = 16;
export const serve = defineCommand({
  name: 'serve',
  arguments: '[url]',
  summary: `Serve a store to Redis clients (default pool: ${DEFAULT_URL})`,
  details:
    '  Makes the pool when it does not exist, the store on the index race: for ranges do\n' +
    '  `create URL --index chime` first. Ctrl-C or SIGTERM ends it and keeps the pool; a second\n' +
    '  Ctrl-C ends at once. Any number of servers and programs can share one pool.\n' +
    '  A pool on memory nodes (tcp://…) is served too. A connection has one command under way\n' +
    '  at a time there, so rates come from many connections.\n' +
    '  Databases beyond 0 are stores named NAME.db1 and so on, made when a client selects them;\n' +
    '  published messages go through NAME.messages. Over a network there is one database\n' +
    '  unless --databases names more. A password file has a line for each user, USER PASSWORD,\n' +
    '  or a password alone for clients that name no user. With it any host may be listened on.\n' +
    '  A client that does not read is not served on while 1 MiB waits for it. When all clients\n' +
    '  together hold more than --max-client-memory, the one that holds most is closed.',
  options: {
    host: {
      value: 'HOST',
      about: `Address to listen on, loopback unless there are passwords (default: ${DEFAULT_HOST})`,
    },
    port: {
      value: 'PORT',
      read: parseCount(0, 65_535),
      about: `Port to listen on, 0 for any free one (default: ${DEFAULT_PORT})`,
    },
    databases: {
      value: 'N',
      read: parseCount(1, DATABASES_MAX),
      about: `Databases that SELECT knows (default: ${DATABASES_MAX}, over a network 1)`,
    },
    'password-file': { value: 'PATH', about: 'Let only clients in that know a password of it' },
    ...TLS_OPTIONS,
    web: { value: 'HOST:PORT', about: 'Serve a page about the pool, too, as `stepwell web` does' },
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
    // Read first, so that a Ctrl-C from here on finds its handler.
    const { signal } = context;
    const library = await context.library();
    const serveRedis = await context.serveRedis(url);
    const databases = options.databases ?? (isRemote(url) ? 1 : DATABASES_MAX);
    const stores = await ServedStores.open(library, url, {
      ...storeNamed('serve', options.store),
      ...poolOptions(options),
      databases,
    });
    let page: WebServer | undefined;
    try {
      const place = await describePlace(library, stores.first.handle, url);
      // With the gateway's passwords and certificate.
      if (options.web !== undefined) {
        page = await startPage(context, stores.first.handle, url, options.web, options);
      }
      const gateway = await serveRedis({
        ...stores.gatewayOptions(databases),
        host: options.host ?? DEFAULT_HOST,
        port: options.port ?? DEFAULT_PORT,
        passwords: passwordsFrom(options['password-file']),
        tls: tlsFrom(options['tls-cert'], options['tls-key']),
        maxConnections: options['max-connections'],
        maxRequestBytes: options['max-request'],
        maxClientBytes: options['max-client-memory'],
        onError: (error) => complain(context, error),
      });
      try {
        await announce(context, gateway, url, place, page);
        await aborted(signal);
      } finally {
        await gateway.close();
      }
      await context.stdout.line('stopped; the pool is kept');
      return EXIT.ok;
    } finally {
      await page?.close();
      await stores.close();
    }
  },
});

async function announce(
  context: Context,
  { address }: Gateway,
  url: string,
  place: string,
  page: WebServer | undefined,
): Promise<void> {
  const style = styleFor(context.stdout.isTTY, context.env);
  const { host, port } = address;
  const shown = style.bold(`${urlHost(host)}:${port}`);
  await context.stdout.line(`Serving the Redis protocol on ${shown}`);
  await context.stdout.line(hints(url, host, port, place, style, page));
  await context.stdout.line('Ctrl-C stops serving and keeps the pool.');
}

function hints(
  url: string,
  host: string,
  port: number,
  place: string,
  style: Style,
  page: WebServer | undefined,
): string {
  const elsewhere = host === DEFAULT_HOST ? '' : `-h ${host} `;
  const pairs: [string, string][] = [
    ['connect:', `redis-cli ${elsewhere}-p ${port}`],
    ['pool:', place],
  ];
  if (page !== undefined) pairs.push(['page:', page.url]);
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

type Served = Awaited<ReturnType<Library['openServed']>>;

/**
 * The stores that `stepwell serve` opens: the named one, which is database 0, and beside it
 * `NAME.db1` and so on, and `NAME.messages`. In a pool on this machine they are opened when a
 * client first needs them. Over a network opening takes time, so all are opened at the start.
 */
class ServedStores {
  readonly first: Served;
  readonly #library: Library;
  readonly #name: string;
  readonly #options: OpenOptions;
  readonly #open = new Map<string, Served>();
  readonly #isRemote: boolean;

  private constructor(first: Served, library: Library, url: string, options: OpenOptions) {
    this.first = first;
    this.#library = library;
    this.#name = options.store ?? 'default';
    this.#options = { client: options.client ?? '' };
    this.#isRemote = isRemote(url);
  }

  /** `databases` is their number, including the first. */
  static async open(
    library: Library,
    url: string,
    { databases, ...options }: OpenOptions & { databases: number },
  ): Promise<ServedStores> {
    const first = await library.openServed(url, { ...options, create: true, values: 'bytes' });
    const stores = new ServedStores(first, library, url, options);
    if (stores.#isRemote) await stores.#openAll(url, databases);
    return stores;
  }

  /** The options of the gateway that concern these stores. */
  gatewayOptions(
    databases: number,
  ): Pick<GatewayOptions, 'databases' | 'messages' | 'pool' | 'store'> {
    return {
      store: this.first.operations,
      pool: this.first.pool,
      databases: {
        count: databases,
        open: (index, create) => this.#find(`${this.#name}.db${index}`, create)?.operations,
      },
      messages: (create) => this.#find(`${this.#name}.messages`, create)?.operations,
    };
  }

  async close(): Promise<void> {
    for (const store of [...this.#open.values(), this.first]) await store.close();
  }

  #find(store: string, create: boolean): Served | undefined {
    const found = this.#open.get(store);
    if (found !== undefined || this.#isRemote) return found;
    const options = { ...this.#options, store, create, values: 'bytes' } as const;
    try {
      const opened = this.#library.openServedSync(this.first.handle, options);
      this.#open.set(store, opened);
      return opened;
    } catch (error) {
      if (!create && hasCode(error, 'SW_STORE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async #openAll(url: string, databases: number): Promise<void> {
    const names = Array.from({ length: databases - 1 }, (_, i) => `${this.#name}.db${i + 1}`);
    try {
      for (const store of [...names, `${this.#name}.messages`]) {
        const options = { ...this.#options, store, create: true, values: 'bytes' } as const;
        this.#open.set(store, await this.#library.openServed(url, options));
      }
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}
