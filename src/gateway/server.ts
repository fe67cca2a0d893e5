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
import { Channels } from './messages/channels.ts';
import { MessageBus, type OpenMessages } from './messages/message-bus.ts';
import { NotificationFlags } from './messages/notifications.ts';
import { Monitors } from './observation/monitors.ts';
import { SlowLog } from './observation/slow-log.ts';
import { Passwords } from './passwords.ts';
import { type ServerView, Totals } from './server-view.ts';
import { GATEWAY_LIMITS, type GatewayLimits, Settings } from './settings.ts';

/** Every command that the gateway serves. */
export const COMMANDS = new CommandTable(Object.values(commands));

const MEBIBYTE = 1024 * 1024;
const CLOSE_MS = 1000;
/** Time limit for a TLS handshake, unless the options set one. */
const HANDSHAKE_MS = 10_000;
/** Interval between checks for idle clients and for clients that do not read. */
const CHECK_MS = 1000;
const TOO_MANY_CLIENTS = '-ERR max number of clients reached\r\n';
/** How many clients are told at a time; further connections are dropped silently. */
const REJECTIONS_MAX = 64;

export interface GatewayOptions {
  /** Opened with `values: 'bytes'`. The caller closes it; closing the server does not. */
  store: GatewayStore;
  /** Runs operations on this store, and on those of databases and messages. */
  pool: GatewayPool;
  /** Where commands wait for one another. Default: nowhere, because verbs finish at once. */
  gate?: Gate;
  /** Databases besides this store, which is number 0. Default: none. */
  databases?: DatabaseOptions;
  /**
   * Opens the store through which all gateways of a pool exchange published messages. Without it
   * messages stay in this process.
   */
  messages?: OpenMessages;
  /** A loopback address; with `passwords` any. Default 127.0.0.1. */
  host?: string;
  /** 0 for any free port; `address` has the one chosen. Default 6380. */
  port?: number;
  /** Passwords by user; `default` is for clients that name none. Default: no password needed. */
  passwords?: Readonly<Record<string, string>>;
  /** Makes it a TLS server: options of node:tls, such as `cert` and `key`. */
  tls?: TlsOptions;
  /** Further clients are refused. Default 1024. */
  maxConnections?: number;
  /**
   * Longest request in bytes. A value that a client sets has to fit, with its key. Default 66 MiB.
   */
  maxRequestBytes?: number;
  /**
   * Total bytes that all connections may hold: incomplete requests and unread replies. Beyond it,
   * the connection that holds most is closed. Default 256 MiB.
   */
  maxClientBytes?: number;
  /**
   * Called for failures inside the gateway or the store; the client sees `ERR internal error`.
   * Default: writes them to standard error.
   */
  onError?: (error: unknown, command: string) => void;
}

export interface GatewayServer {
  /** Where it listens. */
  readonly address: { readonly host: string; readonly port: number };
  /** The address as a URL for Redis clients: `redis://host:port`. */
  readonly url: string;
  /** Clients connected now. */
  readonly connections: number;
  /**
   * Accepts no more clients, sends the replies that are ready, and hangs up. A client that does not
   * read them is cut off after a second. A second call waits for the same end.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves a store to clients of Redis (RESP2 and RESP3) on a loopback port.
 *
 * @throws {StepwellError} SW_INVALID_ARGUMENT for a host that is not loopback or an option out of
 * range; SW_ADDRESS_IN_USE if another server listens there.
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
  readonly totals = new Totals();

  readonly #onError: (error: unknown, command: string) => void;
  readonly #server: Server;
  readonly #isTls: boolean;
  /** All connections; with TLS, also those still in the handshake, which are no clients yet. */
  readonly #sockets = new Set<Socket>();
  readonly #checks: NodeJS.Timeout;
  /** Not a total: CONFIG RESETSTAT must not reset ids. */
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
    const accept = (socket: Socket) => this.#accept(socket);
    // Half-open, so that a client may end its input and still get all replies.
    const settings = { noDelay: true, allowHalfOpen: true };
    this.#isTls = tls !== undefined;
    this.#server = tls
      ? createTlsServer({ handshakeTimeout: HANDSHAKE_MS, ...tls, ...settings }, accept)
      : createServer(settings, accept);
    this.#server.maxConnections = 65_535 + REJECTIONS_MAX;
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    // When a handshake fails or takes too long, Node leaves the connection open.
    this.#server.on('tlsClientError', (_error: Error, socket: Socket) => socket.destroy());
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
    // The system accepted it before the server stopped listening.
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

  /** The hook is the caller's code, so an error that it throws must not end the process either. */
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
