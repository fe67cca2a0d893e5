import { type AddressInfo, createServer, isIPv4, type Server, type Socket } from 'node:net';
import { StepwellError } from '../errors.ts';
import { ClientMemory } from './client-memory.ts';
import type { GatewayStore, ServerView, Totals } from './command.ts';
import { COMMANDS } from './commands/index.ts';
import { Connection } from './connection.ts';
import { GATEWAY_LIMITS, type GatewayLimits } from './limits.ts';

const MEBIBYTE = 1024 * 1024;
const CLOSE_MS = 1000;
const TOO_MANY_CLIENTS = '-ERR max number of clients reached\r\n';
/** Clients that are being told so; beyond them connections are dropped without a word. */
const REJECTIONS_MAX = 64;

export interface GatewayOptions {
  /** Opened with `values: 'bytes'`. It stays the caller's: closing the server does not close it. */
  store: GatewayStore;
  /** A loopback address, because clients are not authenticated. Default 127.0.0.1. */
  host?: string;
  /** 0 lets the system choose one, which `address` then tells. Default 6380. */
  port?: number;
  /** Further clients are refused. Default 1024. */
  maxConnections?: number;
  /**
   * Longest request in bytes, which is also the longest value that a client can set, but for the
   * key. Default 66 MiB.
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
  readonly maxConnections: number;
  readonly limits: GatewayLimits;
  readonly memory: ClientMemory;
  readonly totals: Totals = {
    connections: 0,
    rejectedConnections: 0,
    evictedConnections: 0,
    commands: 0,
    errors: 0,
    bytesIn: 0,
    bytesOut: 0,
  };

  readonly #store: GatewayStore;
  readonly #onError: (error: unknown, command: string) => void;
  readonly #server: Server;
  readonly #connections = new Set<Connection>();
  readonly #asked: { host: string; port: number };
  #address: { host: string; port: number };
  #closed: Promise<void> | undefined;

  constructor({ store, host = '127.0.0.1', port = 6380, ...rest }: GatewayOptions) {
    const { maxConnections = 1024, onError = reportToConsole } = rest;
    if (!isLoopback(host)) {
      throw new StepwellError(
        'SW_INVALID_ARGUMENT',
        `the gateway has no authentication and serves loopback addresses only, not ${host}`,
      );
    }
    checkInteger('port', port, 0, 65_535);
    checkInteger('maxConnections', maxConnections, 1, 65_535);
    const { maxRequestBytes = GATEWAY_LIMITS.requestBytesMax } = rest;
    const { maxClientBytes = GATEWAY_LIMITS.clientBytesMax } = rest;
    checkInteger('maxRequestBytes', maxRequestBytes, 1024, GATEWAY_LIMITS.requestBytesMax);
    checkInteger('maxClientBytes', maxClientBytes, MEBIBYTE, Number.MAX_SAFE_INTEGER);
    this.limits = {
      requestBytesMax: maxRequestBytes,
      replyBytesMax: Math.min(GATEWAY_LIMITS.replyBytesMax, maxClientBytes),
      clientBytesMax: maxClientBytes,
    };
    this.memory = new ClientMemory(maxClientBytes);
    this.#store = store;
    this.#onError = onError;
    this.maxConnections = maxConnections;
    this.#asked = this.#address = { host, port };
    // Half-open, so that a client may end its input and still get all replies.
    this.#server = createServer({ noDelay: true, allowHalfOpen: true });
    this.#server.maxConnections = maxConnections + REJECTIONS_MAX;
    this.#server.on('connection', (socket) => this.#accept(socket));
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
    return `redis://${host.includes(':') ? `[${host}]` : host}:${port}`;
  }

  get connections(): number {
    return this.#connections.size;
  }

  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      const { host, port } = this.#asked;
      const refuse = (error: NodeJS.ErrnoException) => reject(listenError(error, host, port));
      this.#server.once('error', refuse);
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', refuse);
        this.#server.on('error', (error) => this.#report(error, ''));
        const bound = this.#server.address() as AddressInfo;
        this.#address = { host: bound.address, port: bound.port };
        resolve();
      });
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const stopped = new Promise((resolve) => this.#server.close(resolve));
    for (const connection of this.#connections) connection.close(CLOSE_MS);
    await stopped;
    await Promise.all([...this.#connections].map(({ closed }) => closed));
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= this.maxConnections) {
      this.#reject(socket);
      return;
    }
    const connection = new Connection({
      id: ++this.totals.connections,
      socket,
      store: this.#store,
      commands: COMMANDS,
      server: this,
      onError: (error, command) => this.#report(error, command),
    });
    this.#connections.add(connection);
    connection.closed.then(() => this.#connections.delete(connection));
    // Accepted by the system before the server stopped listening.
    if (this.#closed !== undefined) connection.close(CLOSE_MS);
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

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

function checkInteger(name: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new StepwellError(
    'SW_INVALID_ARGUMENT',
    `${name} must be an integer from ${least} to ${most}, not ${value}`,
  );
}

function listenError(cause: NodeJS.ErrnoException, host: string, port: number): StepwellError {
  if (cause.code === 'EADDRINUSE') {
    const message = `another server already listens on ${host}:${port}`;
    return new StepwellError('SW_ADDRESS_IN_USE', message, { cause });
  }
  const message = `cannot listen on ${host}:${port}: ${cause.code ?? cause.message}`;
  return new StepwellError('SW_INVALID_ARGUMENT', message, { cause });
}

function reportToConsole(error: unknown, command: string): void {
  console.error(`stepwell gateway: failed${command && ` in ${command}`}:`, error);
}
