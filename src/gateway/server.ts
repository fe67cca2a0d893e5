import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { StepwellError } from '../errors.ts';
import { isLoopback, listenOn, urlHost } from '../fabrics/tcp/endpoint.ts';
import { CommandTable } from './command.ts';
import * as commands from './commands/index.ts';
import { ClientMemory } from './connections/client-memory.ts';
import { Connection } from './connections/connection.ts';
import { Pause } from './connections/pause.ts';
import { type DatabaseOptions, Databases } from './databases.ts';
import { type Gate, OpenGate } from './gate.ts';
import type { GatewayPool, GatewayStore } from './gateway-store.ts';
import { GATEWAY_LIMITS, type GatewayLimits } from './limits.ts';
import { Channels } from './messages/channels.ts';
import { MessageBus, type OpenMessages } from './messages/message-bus.ts';
import { NotificationFlags } from './messages/notifications.ts';
import { Monitors } from './observation/monitors.ts';
import { SlowLog } from './observation/slow-log.ts';
import { Passwords } from './passwords.ts';
import type { ServerView, Totals } from './server-view.ts';
import { Settings } from './settings.ts';

/** Every command that the gateway serves. */
export const COMMANDS = new CommandTable(Object.values(commands));

const MEBIBYTE = 1024 * 1024;
const CLOSE_MS = 1000;
/** How long a connection may take to end TLS's greeting, unless the options say so. */
const HANDSHAKE_MS = 10_000;
/** How often idle clients and clients that do not read are looked for. */
const CHECK_MS = 1000;
const TOO_MANY_CLIENTS = '-ERR max number of clients reached\r\n';
/** Clients that are being told so; beyond them connections are dropped without a word. */
const REJECTIONS_MAX = 64;

export interface GatewayOptions {
  /** Opened with `values: 'bytes'`. It stays the caller's: closing the server does not close it. */
  store: GatewayStore;
  /** Runs what calls the store, and the stores of databases and messages. */
  pool: GatewayPool;
  /** Where commands wait for one another. Default: they need not, as verbs finish at once. */
  gate?: Gate;
  /** Databases that SELECT chooses beside that store, which is number 0. Default: none. */
  databases?: DatabaseOptions;
  /**
   * Opens the store by which gateways of one pool exchange published messages: the same for all of
   * them. Without it messages stay in this process.
   */
  messages?: OpenMessages;
  /** A loopback address; with `passwords` any. Default 127.0.0.1. */
  host?: string;
  /** 0 lets the system choose one, which `address` then tells. Default 6380. */
  port?: number;
  /** Passwords by user; `default` is for clients that name none. Default: none is asked for. */
  passwords?: Readonly<Record<string, string>>;
  /** Makes it a TLS server: options of node:tls, such as `cert` and `key`. */
  tls?: TlsOptions;
  /** Further clients are refused. Default 1024. */
  maxConnections?: number;
  /**
   * Longest request in bytes; a value that a client sets has to fit, with its key. Default 66 MiB.
   */
  maxRequestBytes?: number;
  /**
   * Bytes that all connections may hold together: requests that have not come whole, and replies
   * that have not been read. Beyond it the connection that holds most is closed. Default 256 MiB.
   */
  maxClientBytes?: number;
  /**
   * Told of failures inside the gateway or the store; the client sees `ERR internal error`.
   * Default: written to standard error.
   */
  onError?: (error: unknown, command: string) => void;
}

export interface GatewayServer {
  /** Where it listens. */
  readonly address: { readonly host: string; readonly port: number };
  /** The address as clients of Redis take it: `redis://host:port`. */
  readonly url: string;
  /** Clients connected now. */
  readonly connections: number;
  /**
   * Accepts no more clients, sends the replies that are ready, and hangs up; a client that does not
   * read them is cut off after a second. Calling it again waits for the same end.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves a store to clients of Redis (RESP2 and RESP3) on a loopback port.
 *
 * @throws {StepwellError} SW_INVALID_ARGUMENT for a host that is not loopback or an option out of
 * range; SW_ADDRESS_IN_USE when something listens there already.
 */
export async function serveRedis(options: GatewayOptions): Promise<GatewayServer> {
  const gateway = new Gateway(options);
  await gateway.listen();
  return gateway;
}

class Gateway implements GatewayServer, ServerView {
  readonly startedAt = Date.now();
  readonly limits: GatewayLimits;
  readonly settings: Settings;
  readonly memory: ClientMemory;
  readonly clients = new Map<number, Connection>();
  readonly databases: Databases;
  readonly pool: GatewayPool;
  readonly gate: Gate;
  readonly passwords: Passwords | undefined;
  readonly pause = new Pause();
  readonly channels = new Channels();
  readonly messages: MessageBus;
  readonly monitors = new Monitors();
  readonly slowLog: SlowLog;
  readonly totals: Totals = {
    connections: 0,
    rejectedConnections: 0,
    evictedConnections: 0,
    commands: 0,
    errors: 0,
    bytesIn: 0,
    bytesOut: 0,
    hits: 0,
    misses: 0,
  };

  readonly #onError: (error: unknown, command: string) => void;
  readonly #server: Server;
  readonly #isTls: boolean;
  /** With TLS: also those that have not ended its greeting, which are no clients yet. */
  readonly #sockets = new Set<Socket>();
  readonly #checks: NodeJS.Timeout;
  /** Ids count on when CONFIG RESETSTAT has cleared the totals. */
  #nextId = 0;
  /** Where it is to listen; once it listens, with the port that it has. */
  #address: { host: string; port: number };
  #closed: Promise<void> | undefined;

  constructor(options: GatewayOptions) {
    const { store, host = '127.0.0.1', port = 6380, onError = reportToConsole, tls } = options;
    this.limits = limitsOf(options);
    const { maxConnections = 1024, passwords } = options;
    checkInteger('port', port, 0, 65_535);
    checkInteger('maxConnections', maxConnections, 1, 65_535);
    this.passwords = passwords && new Passwords(passwords);
    checkHost(host, this.passwords);
    this.settings = new Settings(maxConnections);
    this.slowLog = new SlowLog(this.settings);
    this.memory = new ClientMemory(this.limits.clientBytesMax);
    this.databases = new Databases(store, options.databases);
    this.pool = options.pool;
    this.gate = options.gate ?? new OpenGate();
    this.#onError = onError;
    this.messages = new MessageBus(this.channels, options.messages, {
      pool: options.pool,
      onNotify: (text) => {
        this.settings.notifications = NotificationFlags.parse(text) ?? new NotificationFlags('');
      },
      onError: (error) => this.#report(error, ''),
    });
    this.#address = { host, port };
    // Half-open, so that a client may end its input and still get all replies.
    const shared = { noDelay: true, allowHalfOpen: true };
    this.#isTls = tls !== undefined;
    this.#server =
      tls === undefined
        ? createServer(shared)
        : createTlsServer({ handshakeTimeout: HANDSHAKE_MS, ...tls, ...shared });
    this.#server.maxConnections = 65_535 + REJECTIONS_MAX;
    if (this.#isTls) {
      this.#server.on('connection', (socket: Socket) => {
        this.#sockets.add(socket);
        socket.once('close', () => this.#sockets.delete(socket));
      });
      // Node tells that a greeting failed or took too long, and leaves the connection open.
      this.#server.on('tlsClientError', (_error: Error, socket: Socket) => socket.destroy());
    }
    this.#server.on(this.#isTls ? 'secureConnection' : 'connection', (socket: Socket) =>
      this.#accept(socket),
    );
    this.#checks = setInterval(() => this.#checkClients(), CHECK_MS);
    this.#checks.unref();
  }

  get address(): { host: string; port: number } {
    return { ...this.#address };
  }

  get host(): string {
    return this.#address.host;
  }

  get port(): number {
    return this.#address.port;
  }

  get url(): string {
    const { host, port } = this.#address;
    const scheme = this.#isTls ? 'rediss' : 'redis';
    return `${scheme}://${urlHost(host)}:${port}`;
  }

  get connections(): number {
    return this.clients.size;
  }

  async listen(): Promise<void> {
    try {
      await this.pool.run(this.messages.readSettings());
      const { address, port } = await listenOn(this.#server, this.#address);
      this.#address = { host: address, port };
      this.#server.on('error', (error) => this.#report(error, ''));
    } catch (error) {
      this.#stopTimers();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stopTimers();
    const stopped = new Promise((resolve) => this.#server.close(resolve));
    const connections = [...this.clients.values()];
    for (const connection of connections) connection.close(CLOSE_MS);
    await Promise.all(connections.map(({ closed }) => closed));
    for (const socket of this.#sockets) socket.destroy();
    await stopped;
  }

  #stopTimers(): void {
    clearInterval(this.#checks);
    this.messages.close();
    this.pause.end();
  }

  #accept(socket: Socket): void {
    if (this.clients.size >= this.settings.maxConnections) {
      this.#reject(socket);
      return;
    }
    this.totals.connections++;
    const connection = new Connection({
      id: ++this.#nextId,
      socket,
      commands: COMMANDS,
      server: this,
      onError: (error, command) => this.#report(error, command),
    });
    const { id } = connection.state;
    this.clients.set(id, connection);
    connection.closed.then(() => this.#forget(connection));
    // Accepted by the system before the server stopped listening.
    if (this.#closed !== undefined) connection.close(CLOSE_MS);
  }

  #forget(connection: Connection): void {
    const { state } = connection;
    this.clients.delete(state.id);
    this.monitors.remove(connection);
    for (const kind of ['channels', 'patterns'] as const) {
      for (const name of state[kind]) this.channels.unsubscribe(kind, connection, name);
    }
    void this.pool.run(this.messages.update());
  }

  #checkClients(): void {
    const now = Date.now();
    for (const connection of this.clients.values()) connection.checkLimits(now);
  }

  #reject(socket: Socket): void {
    this.totals.rejectedConnections++;
    const timer = setTimeout(() => socket.destroy(), CLOSE_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.on('error', () => {});
    socket.resume();
    socket.end(TOO_MANY_CLIENTS);
  }

  /** The hook is the caller's code: what it raises must not end the process either. */
  #report(error: unknown, command: string): void {
    try {
      this.#onError(error, command);
    } catch (failure) {
      reportToConsole(failure, command);
    }
  }
}

function limitsOf({ maxRequestBytes, maxClientBytes }: GatewayOptions): GatewayLimits {
  const requestBytesMax = maxRequestBytes ?? GATEWAY_LIMITS.requestBytesMax;
  const clientBytesMax = maxClientBytes ?? GATEWAY_LIMITS.clientBytesMax;
  checkInteger('maxRequestBytes', requestBytesMax, 1024, GATEWAY_LIMITS.requestBytesMax);
  checkInteger('maxClientBytes', clientBytesMax, MEBIBYTE, Number.MAX_SAFE_INTEGER);
  const replyBytesMax = Math.min(GATEWAY_LIMITS.replyBytesMax, clientBytesMax);
  return { requestBytesMax, replyBytesMax, clientBytesMax };
}

function checkHost(host: string, passwords: Passwords | undefined): void {
  if (passwords !== undefined || isLoopback(host)) return;
  throw new StepwellError(
    'SW_INVALID_ARGUMENT',
    `without passwords the gateway serves loopback addresses only, not ${host}`,
  );
}

function checkInteger(name: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new StepwellError(
    'SW_INVALID_ARGUMENT',
    `${name} must be an integer from ${least} to ${most}, not ${value}`,
  );
}

function reportToConsole(error: unknown, command: string): void {
  console.error(`stepwell gateway: failed${command && ` in ${command}`}:`, error);
}
