import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { StepwellError } from '../errors.ts';
import { isLoopback, listenOn, urlHost } from '../fabrics/tcp/endpoint.ts';
import { Passwords } from '../gateway/passwords.ts';
import type { PoolHandle } from '../store/api.ts';
import { observePool, type PoolObserver } from '../store/watching/observer.ts';
import { ANSWERS, type Sources } from './answers.ts';
import type { Failure } from './messages.ts';
import { History } from './points.ts';
import { Refusal, refuse } from './refusals.ts';

export interface WebOptions {
  /** The pool, and its name on the page. */
  place: string | PoolHandle;
  url: string;
  /** A loopback address; with `passwords` any. Default 127.0.0.1. */
  host?: string;
  /** 0 for any free port. */
  port: number;
  /** Passwords by user, asked for by HTTP's basic authentication. */
  passwords?: Readonly<Record<string, string>>;
  tls?: { cert: string; key: string };
  /** Milliseconds between two readings of the pool (1000). */
  everyMs?: number;
}

export interface WebServer {
  /** The page's address. */
  readonly url: string;
  close(): Promise<void>;
}

const HEADER_BYTES_MAX = 8192;
const CONNECTIONS_MAX = 64;
/** Answers in progress; a page asks for one or two at a time. */
const ANSWERS_MAX = 16;
const REQUEST_MS = 10_000;
/** Interval between checks for requests that take too long. */
const LATE_EVERY_MS = 1000;
/** A connection without traffic for this long is closed, even if its answer was not read. */
const SILENT_MS = 60_000;
/** Delay after a wrong password. */
const WRONG_MS = 500;

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
};

/**
 * Serves a page about a pool, which only reads. Raises SW_INVALID_ARGUMENT for a host that is not
 * loopback without passwords, SW_ADDRESS_IN_USE, and what `open` raises of the pool.
 */
export async function serveWeb(options: WebOptions): Promise<WebServer> {
  const { host = '127.0.0.1', place, url, passwords } = options;
  if (passwords === undefined && !isLoopback(host)) {
    const why = `without passwords the page is served on loopback addresses only, not ${host}`;
    throw new StepwellError('SW_INVALID_ARGUMENT', why);
  }
  const known = passwords && new Passwords(passwords);
  const observer = await observePool(place, url, { client: 'stepwell web' });
  const page = new PageServer({ ...options, host }, known, observer);
  try {
    await page.listen();
    return page;
  } catch (error) {
    await page.close();
    throw error;
  }
}

type ServedOptions = WebOptions & { host: string };

interface Connection {
  socket: Socket;
  /** Requests that are not answered yet. */
  requests: number;
}

class PageServer implements WebServer, Sources {
  readonly place: string | PoolHandle;
  readonly observer: PoolObserver;
  readonly history = new History();
  last: Sources['last'] = { figures: null, failure: null };
  readonly #options: ServedOptions;
  readonly #passwords: Passwords | undefined;
  readonly #assets = loadAssets();
  readonly #server: Server;
  /**
   * By the client's address and port, least recently answered first. Node's own list lacks
   * connections that are still in the TLS handshake.
   */
  readonly #connections = new Map<string, Connection>();
  #timer: NodeJS.Timeout | undefined;
  #answering = 0;
  #closed = false;

  constructor(options: ServedOptions, passwords: Passwords | undefined, observer: PoolObserver) {
    const { place, tls } = options;
    this.place = place;
    this.observer = observer;
    this.#options = options;
    this.#passwords = passwords;
    const limits = {
      maxHeaderSize: HEADER_BYTES_MAX,
      requestTimeout: REQUEST_MS,
      headersTimeout: REQUEST_MS,
      connectionsCheckingInterval: LATE_EVERY_MS,
    };
    const answer = (request: IncomingMessage, response: ServerResponse) => {
      this.#noteRequest(request, response);
      void this.#respond(request, response);
    };
    this.#server = tls
      ? createTlsServer({ ...limits, handshakeTimeout: REQUEST_MS, ...tls }, answer)
      : createServer(limits, answer);
    this.#server.timeout = SILENT_MS;
    this.#server.on('connection', (socket: Socket) => this.#hold(socket));
  }

  /**
   * Beyond the limit, ends the connection that has been idle longest, so idle connections keep no
   * others out. If all others are being answered, that is the new one.
   */
  #hold(socket: Socket): void {
    const name = nameOf(socket);
    const connection = { socket, requests: 0 };
    this.#connections.set(name, connection);
    socket.once('close', () => {
      if (this.#connections.get(name) === connection) this.#connections.delete(name);
    });
    if (this.#connections.size <= CONNECTIONS_MAX) return;
    for (const [other, { socket, requests }] of this.#connections) {
      if (requests > 0) continue;
      this.#connections.delete(other);
      socket.destroy();
      return;
    }
  }

  #noteRequest({ socket }: IncomingMessage, response: ServerResponse): void {
    const name = nameOf(socket);
    const connection = this.#connections.get(name);
    if (connection === undefined) return;
    connection.requests++;
    response.once('close', () => {
      connection.requests--;
      if (this.#connections.delete(name)) this.#connections.set(name, connection);
    });
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    const { tls, host } = this.#options;
    return `${tls ? 'https' : 'http'}://${urlHost(host)}:${port}/`;
  }

  async listen(): Promise<void> {
    await this.#look();
    await listenOn(this.#server, this.#options);
    // It cannot accept a connection, for example because the process has no descriptor left.
    this.#server.on('error', (error) => {
      this.last = { ...this.last, failure: messageOf(error) };
    });
  }

  /** Reads the figures, and schedules the next reading. */
  async #look(): Promise<void> {
    try {
      const figures = await this.observer.observe();
      this.history.add(figures);
      this.last = { figures, failure: null };
    } catch (error) {
      this.last = { ...this.last, failure: messageOf(error) };
    }
    if (!this.#closed)
      this.#timer = setTimeout(() => void this.#look(), this.#options.everyMs ?? 1000);
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      refuse(request, { host: this.#options.host, passwords: this.#passwords });
      const { pathname, searchParams } = asked(request.url ?? '/');
      const asset = this.#assets.get(pathname);
      if (asset) return send(response, 200, asset.type, asset.body);
      const body = JSON.stringify(await this.#answer(pathname, searchParams));
      send(response, 200, 'application/json', body);
    } catch (error) {
      const { status, headers, failure } = failureOf(error);
      if (status === 401) await new Promise((resolve) => setTimeout(resolve, WRONG_MS));
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      send(response, status, 'application/json', JSON.stringify(failure));
    }
  }

  async #answer(path: string, query: URLSearchParams): Promise<unknown> {
    const answer = ANSWERS.get(path);
    if (answer === undefined) throw new Refusal(404, 'there is nothing here');
    if (this.#answering >= ANSWERS_MAX) {
      throw new Refusal(503, 'too many requests at once', { 'retry-after': '1' });
    }
    this.#answering++;
    try {
      return await answer(this, query);
    } finally {
      this.#answering--;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    const closed = this.#server.listening ? once(this.#server, 'close') : undefined;
    this.#server.close();
    for (const { socket } of this.#connections.values()) socket.destroy();
    await closed;
    await this.observer.close();
  }
}

/** With TLS, the socket of a request is not the accepted one, but has the same name. */
function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Raises a Refusal. */
function asked(target: string): URL {
  if (URL.canParse(target, 'http://page')) return new URL(target, 'http://page');
  throw new Refusal(400, 'this is no path');
}

function send(response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  const length = Buffer.byteLength(body);
  response.writeHead(status, { ...HEADERS, 'content-type': type, 'content-length': length });
  // Node omits the body in an answer to HEAD.
  response.end(body);
}

function failureOf(error: unknown): {
  status: number;
  headers: Readonly<Record<string, string>>;
  failure: Failure;
} {
  const message = messageOf(error);
  if (error instanceof Refusal) {
    const { status, headers } = error;
    return { status, headers, failure: { code: 'REFUSED', message } };
  }
  const isOurs = error instanceof StepwellError;
  const isWrong = isOurs && /^SW_(INVALID|UNSUPPORTED)/.test(error.code);
  const status = isWrong ? 400 : isOurs ? 502 : 500;
  return { status, headers: {}, failure: { code: isOurs ? error.code : 'INTERNAL', message } };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

interface Asset {
  type: string;
  body: Buffer;
}

const FILES: readonly (readonly [path: string, file: string, type: string])[] = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/page.css', 'page.css', 'text/css; charset=utf-8'],
  ['/main.js', 'main.js', 'text/javascript; charset=utf-8'],
];

/** The page's files by path, made by the build. No other files are served. */
function loadAssets(): ReadonlyMap<string, Asset> {
  return new Map(
    FILES.map(([path, file, type]) => {
      return [path, { type, body: readFileSync(new URL(`./page/${file}`, import.meta.url)) }];
    }),
  );
}
