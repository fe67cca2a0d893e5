import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { StepwellError } from '../../../errors.ts';
import { type FileLocks, LOCK_HELD, LOCK_NEEDLESS, LOCK_TAKEN } from '../../shared/file-locks.ts';
import { isLoopback, listenOn } from '../endpoint.ts';
import {
  HEAD_IMAGE_BYTES,
  PAGES_ANSWERS,
  readLock,
  readSession,
  sessionTag,
} from '../method-arguments.ts';
import {
  ATTACH,
  AWAIT_CHANGE,
  ERASE,
  FIRST_FREE_METHOD,
  INITIALISE,
  IS_CONNECTED,
  IS_LOCKED,
  LOCK,
  PAGES,
  REVOKE,
  UNLOCK,
} from '../node-methods.ts';
import { FRAME_BYTES_MAX } from '../wire.ts';
import { Awaits } from './awaits.ts';
import type { DataPath } from './data-path.ts';
import { Guesses } from './guesses.ts';
import { Handshakes } from './handshakes.ts';
import { NodeConnection, type NodeContext } from './node-connection.ts';
import type { NodeMemory } from './node-memory.ts';
import type { RowTable } from './reader-guard.ts';

const CONNECTIONS_MAX = 1024;
const OUTSTANDING_BYTES_MAX = 8 * 1024 * 1024;
const BUFFERED_BYTES_MAX = 64 * 1024 * 1024;
export const DEFAULT_LEASE_MS = 10_000;
/** Leases are counted in ticks: while the node itself is stopped, no client's lease runs out. */
const TICKS_PER_LEASE = 10;
/** How many ended sessions the node remembers, to refuse their return. It forgets the oldest. */
const ENDED_SESSIONS_MAX = 65_536;
/** Time limit for a client's handshake, including that of TLS. */
const HANDSHAKE_MS = 10_000;
const HANDSHAKES_MAX = 1024;
const IMAGE_BYTES_MAX = 64 * 1024;

/** Methods that read-only clients may call. */
const READERS_METHODS: readonly number[] = [IS_CONNECTED, LOCK, UNLOCK, IS_LOCKED];

export type CallHandler = (
  method: number,
  request: Uint8Array,
  session: number,
) => Uint8Array | Promise<Uint8Array>;

export interface NodeOptions {
  memory: NodeMemory;
  host: string;
  /** 0 for any free port. */
  port: number;
  /** Without a secret, the node listens only on loopback addresses. */
  secret?: Uint8Array;
  /** The secret of read-only clients; needs `secret` too. */
  readSecret?: Uint8Array;
  /** Where the rows of read-only clients are. */
  rows?: RowTable;
  tls?: TlsOptions;
  /** Maximum number of clients at a time. */
  maxConnections?: number;
  /** Maximum number of further connections that are still in the handshake. */
  maxHandshakes?: number;
  handshakeMs?: number;
  guesses?: Guesses;
  frameBytesMax?: number;
  outstandingBytesMax?: number;
  /** Limit for all clients together; see NodeContext. */
  bufferedBytesMax?: number;
  leaseMs?: number;
  /** Answers calls from FIRST_FREE_METHOD on. */
  calls?: CallHandler;
  /** Executes verbs instead of the TCP connections. */
  dataPath?: DataPath;
}

/** A passive memory node: executes each client's verbs in order, and revokes clients. */
export class NodeServer implements NodeContext {
  readonly memory: NodeMemory;
  readonly boot = randomBytes(6).readUIntBE(0, 6) + 1;
  readonly secret: Uint8Array | undefined;
  readonly readers: NodeContext['readers'];
  readonly guesses: Guesses;
  readonly limits: NodeContext['limits'];
  readonly bufferedBytesMax: number;
  buffered = 0;
  readonly #server: Server;
  readonly #calls: CallHandler | undefined;
  readonly #dataPath: DataPath | undefined;
  /** Closed sessions whose verbs the data path may still be executing. */
  readonly #ending = new Map<number, Promise<void>>();
  readonly #maxConnections: number;
  readonly #connections = new Set<NodeConnection>();
  /** The connections' raw sockets. With TLS, also those that are still in the handshake. */
  readonly #sockets = new Set<Socket>();
  readonly #handshakes: Handshakes;
  readonly #sessions = new Map<number, NodeConnection>();
  readonly #ended = new Set<number>();
  readonly #locks: SessionLocks;
  readonly #awaits: Awaits;
  readonly #clock: NodeJS.Timeout;
  #erasing = false;

  private constructor(options: NodeOptions) {
    this.memory = options.memory;
    this.#locks = new SessionLocks(options.memory.locks);
    this.#awaits = new Awaits(options.memory);
    this.secret = options.secret;
    const { readSecret, rows } = options;
    if (readSecret && rows) this.readers = { secret: readSecret, rows };
    this.guesses = options.guesses ?? new Guesses();
    this.limits = {
      frameBytesMax: options.frameBytesMax ?? FRAME_BYTES_MAX,
      outstandingBytesMax: options.outstandingBytesMax ?? OUTSTANDING_BYTES_MAX,
      leaseMs: options.leaseMs ?? DEFAULT_LEASE_MS,
    };
    this.bufferedBytesMax = options.bufferedBytesMax ?? BUFFERED_BYTES_MAX;
    this.#calls = options.calls;
    this.#dataPath = options.dataPath;
    this.#maxConnections = options.maxConnections ?? CONNECTIONS_MAX;
    const { maxHandshakes = HANDSHAKES_MAX, handshakeMs = HANDSHAKE_MS } = options;
    this.#handshakes = new Handshakes(maxHandshakes, handshakeMs);
    const accept = (socket: Socket) => this.#accept(socket);
    // Half-open, so that the node can tell a revoked client why and still read what it has sent.
    const settings = { allowHalfOpen: true };
    this.#server = options.tls
      ? createTlsServer({ ...options.tls, ...settings, handshakeTimeout: handshakeMs }, accept)
      : createServer(settings, accept);
    this.#server.on('connection', (socket: Socket) => this.#hold(socket));
    // Nothing else would close a half-open socket whose handshake has failed.
    this.#server.on('tlsClientError', (_error, socket: Socket) => socket.destroy());
    this.#clock = setInterval(() => this.#tick(), this.limits.leaseMs / TICKS_PER_LEASE);
    this.#clock.unref();
  }

  /** Raises SW_ADDRESS_IN_USE, and SW_INVALID_ARGUMENT off loopback without a secret. */
  static async listen(options: NodeOptions): Promise<NodeServer> {
    if (options.secret === undefined && !isLoopback(options.host)) {
      throw new StepwellError(
        'SW_INVALID_ARGUMENT',
        `listening on ${options.host} needs a secret: any host there could change the memory`,
      );
    }
    const node = new NodeServer(options);
    try {
      await listenOn(node.#server, options);
      // Without a listener, a connection that cannot be accepted would end the process, and lose
      // memory that is in no file. The client sees its connection end.
      node.#server.on('error', () => {});
      return node;
    } catch (error) {
      node.#stopClocks();
      throw error;
    }
  }

  get executesBatches(): boolean {
    return this.#dataPath === undefined;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  get connections(): number {
    return this.#connections.size;
  }

  async close(): Promise<void> {
    this.#stopClocks();
    for (const connection of this.#connections) connection.destroy();
    for (const socket of this.#sockets) socket.destroy();
    await this.#dataPath?.close();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #stopClocks(): void {
    clearInterval(this.#clock);
    this.#awaits.close();
    this.#handshakes.close();
  }

  #hold(socket: Socket): void {
    this.#sockets.add(socket);
    this.#handshakes.begin(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #accept(socket: Socket): void {
    const connection = new NodeConnection(this, socket);
    this.#connections.add(connection);
    // If the client ends the connection, so does the node. Only the node uses half-open sockets.
    socket.on('end', () => socket.end());
  }

  admit(connection: NodeConnection): StepwellError | undefined {
    const { session } = connection;
    // A client connects once to each address, so two of its addresses are this node's.
    if (this.#sessions.has(session)) {
      return new StepwellError('SW_INVALID_URL', 'the URL names this node twice');
    }
    // A session that ended here may have been declared dead since then.
    if (this.#ended.has(session)) {
      return new StepwellError('SW_TOO_MANY_CLIENTS', 'this session was here before');
    }
    if (this.#erasing) {
      return new StepwellError('SW_TOO_MANY_CLIENTS', 'its memory is being erased');
    }
    if (this.#sessions.size >= this.#maxConnections) {
      const why = `the node accepts at most ${this.#maxConnections} clients`;
      return new StepwellError('SW_TOO_MANY_CLIENTS', why);
    }
    this.#handshakes.letIn(connection.socket);
    this.#sessions.set(session, connection);
    return undefined;
  }

  executed(): void {
    this.#awaits.executed();
  }

  closed(connection: NodeConnection): void {
    this.#awaits.drop(connection);
    this.#connections.delete(connection);
    this.#forget(connection);
  }

  #forget(connection: NodeConnection): void {
    const { session } = connection;
    if (this.#sessions.get(session) === connection) this.#letGo(session);
  }

  /** The session is over; its locks stay until its last verb has been executed. */
  #letGo(session: number): void {
    this.#sessions.delete(session);
    this.#remember(session);
    if (this.#dataPath === undefined) {
      this.#locks.end(session);
      return;
    }
    const ending = this.#dataPath.end(session).then(() => {
      this.#ending.delete(session);
      this.#locks.end(session);
    });
    this.#ending.set(session, ending);
  }

  #remember(session: number): void {
    this.#ended.add(session);
    if (this.#ended.size <= ENDED_SESSIONS_MAX) return;
    for (const oldest of this.#ended) {
      this.#ended.delete(oldest);
      break;
    }
  }

  call(
    connection: NodeConnection,
    method: number,
    request: Uint8Array,
  ): Uint8Array | Promise<Uint8Array> {
    const { session, readsOnly } = connection;
    if (method === AWAIT_CHANGE) return this.#awaits.begin(connection, request);
    if (readsOnly && !READERS_METHODS.includes(method)) {
      throw new StepwellError('SW_READ_ONLY', 'this client may only read');
    }
    if (method === ATTACH && this.#dataPath) return this.#dataPath.attach(session);
    if (method === PAGES && this.#dataPath) {
      return byte(PAGES_ANSWERS.indexOf(this.#dataPath.pages()));
    }
    if (method === INITIALISE) return this.#initialise(request);
    if (method === IS_CONNECTED) return flag(this.#isConnected(request));
    if (method === ERASE) return this.#erase(session, request);
    if (method === REVOKE) return this.#revokeWhole(readSession(request).session);
    if (method === LOCK) return byte(this.#lock(session, readLock(request), readsOnly));
    if (method === UNLOCK) return this.#unlock(session, request);
    if (method === IS_LOCKED) return flag(this.#locks.isTaken(readLock(request)));
    if (method >= FIRST_FREE_METHOD && this.#calls) return this.#calls(method, request, session);
    throw new StepwellError('SW_UNSUPPORTED', `this node has no method ${method}`);
  }

  /** A read-only client has one row, and so may hold only one lock. */
  #lock(session: number, lock: number, readsOnly: boolean): number {
    if (readsOnly && this.#locks.hasOther(session, lock)) return LOCK_HELD;
    return this.#locks.take(session, lock);
  }

  #unlock(session: number, request: Uint8Array): Uint8Array {
    this.#locks.release(session, readLock(request));
    return flag(true);
  }

  #initialise(image: Uint8Array): Uint8Array {
    if (image.length < 8 || image.length > IMAGE_BYTES_MAX) throw new RangeError('no image');
    return this.memory.initialise(image);
  }

  async #erase(session: number, image: Uint8Array): Promise<Uint8Array> {
    if (image.length !== HEAD_IMAGE_BYTES) throw new RangeError('no image');
    if (this.#erasing || !this.memory.isErasable(image)) {
      throw new StepwellError('SW_POOL_FOREIGN', 'this node now holds another pool');
    }
    // In the same event-loop turn as the check, so no other client's verb runs in between or later.
    this.#erasing = true;
    for (const other of [...this.#sessions.keys()]) {
      if (other !== session) this.#revoke(other);
    }
    try {
      await Promise.all(this.#ending.values());
      if (!this.memory.isBlank)
        await this.memory.erase(() => new Promise((resolve) => setImmediate(resolve)));
    } finally {
      this.#erasing = false;
    }
    return flag(true);
  }

  #isConnected(request: Uint8Array): boolean {
    const { session, tagOnly } = readSession(request);
    const known = [...this.#sessions.keys(), ...this.#ending.keys()];
    return known.some((one) => (tagOnly ? sessionTag(one) : one) === session);
  }

  /** Replies when the session's last verb has been executed. */
  #revokeWhole(session: number): Uint8Array | Promise<Uint8Array> {
    const revoked = flag(this.#revoke(session));
    const ending = this.#ending.get(session);
    return ending === undefined ? revoked : ending.then(() => revoked);
  }

  /**
   * Runs in one turn of the event loop. Without a data path this thread executes every verb, so
   * none can come in between.
   */
  #revoke(session: number): boolean {
    const connection = this.#sessions.get(session);
    this.#remember(session);
    if (connection === undefined) return false;
    connection.end('SW_REVOKED', 'other clients declared this one dead; open the pool again');
    this.#letGo(session);
    return true;
  }

  /**
   * Measures each client's silence in this node's own ticks. After a pause of the node, because it
   * was stopped or busy, the missed ticks count as one.
   */
  #tick(): void {
    for (const connection of this.#connections) {
      if (++connection.silentTicks <= TICKS_PER_LEASE) continue;
      if (connection.open) {
        connection.end(
          'SW_REVOKED',
          `silent for longer than the lease of ${this.limits.leaseMs} ms`,
        );
        this.#forget(connection);
      } else {
        connection.destroy();
      }
    }
  }
}

function flag(value: boolean): Uint8Array {
  return byte(value ? 1 : 0);
}

function byte(value: number): Uint8Array {
  return new Uint8Array([value, 0, 0, 0]);
}

/**
 * Locks on the memory's file that a node holds for its sessions. A lock ends with its session,
 * after the last verb, or with the node, which then executes no verb either. All of them belong to
 * one open file description, so the node itself must tell its sessions apart.
 */
class SessionLocks {
  readonly #locks: FileLocks | undefined;
  /** The session that holds each lock. */
  readonly #holders = new Map<number, number>();

  /** Memory without a file is reached only through this node, so no client checks locks. */
  constructor(locks: FileLocks | undefined) {
    this.#locks = locks;
  }

  take(session: number, lock: number): number {
    if (this.#locks === undefined) return LOCK_NEEDLESS;
    const holder = this.#holders.get(lock);
    if (holder !== undefined) return holder === session ? LOCK_TAKEN : LOCK_HELD;
    const outcome = this.#locks.take(lock);
    if (outcome === LOCK_TAKEN) this.#holders.set(lock, session);
    return outcome;
  }

  /** Whether the session holds a lock other than this one. */
  hasOther(session: number, lock: number): boolean {
    for (const [held, holder] of this.#holders) {
      if (holder === session && held !== lock) return true;
    }
    return false;
  }

  release(session: number, lock: number): void {
    if (this.#holders.get(lock) !== session) return;
    this.#holders.delete(lock);
    this.#locks?.release(lock);
  }

  /** Also true if this node cannot tell. */
  isTaken(lock: number): boolean {
    return this.#locks?.isTaken(lock) ?? true;
  }

  /** Call once no more verbs of the session will be executed. */
  end(session: number): void {
    for (const [lock, holder] of this.#holders) if (holder === session) this.release(session, lock);
  }
}
