import type { Socket } from 'node:net';
import type { Operation } from '../../verbs/index.ts';
import {
  type Command,
  type CommandContext,
  type CommandTable,
  type ErrorHook,
  type LongReply,
  subcommandOf,
} from '../command.ts';
import { dispatch, writePart } from '../dispatch.ts';
import type { Arrival } from '../gate.ts';
import type { GatewayStore } from '../gateway-store.ts';
import { type EventKind, messagesOf } from '../messages/notifications.ts';
import { type ProtocolVersion, ReplyWriter } from '../protocol/reply.ts';
import {
  type Request,
  RequestReader,
  requestLimits,
  UNAUTHENTICATED_LIMITS,
} from '../protocol/request-reader.ts';
import type { Client, ServerView } from '../server-view.ts';
import { OUTPUT_BYTES_MAX } from '../settings.ts';
import type { MemoryHolder } from './client-memory.ts';
import { ConnectionState } from './connection-state.ts';

/**
 * About how much the views and lists for one argument take, besides its bytes. A client can send a
 * million arguments in six megabytes.
 */
const ARGUMENT_BYTES = 128;
/** Most operations in flight for one command, or for a part of a long reply. */
const OPERATIONS_MAX = 128;
const EVICTED = 'ERR the clients of this server hold too much memory, this one most of all';
/** How long a client may take to hang up once it has been sent everything. */
const LINGER_MS = 1000;

export interface ConnectionOptions {
  readonly id: number;
  readonly socket: Socket;
  readonly commands: CommandTable;
  readonly server: ServerView;
  readonly onError: ErrorHook;
}

/**
 * One client: its unread input, its unsent output and its settings. Its requests run one after the
 * other; over a network, concurrently with those of other connections.
 */
export class Connection implements Client, CommandContext, Arrival, MemoryHolder {
  /** Settles when the connection is gone and the running request has ended. */
  readonly closed: Promise<void>;
  readonly state: ConnectionState;
  readonly reply = new ReplyWriter();
  readonly commands: CommandTable;
  readonly server: ServerView;
  readonly onError: ErrorHook;
  readonly address: string;
  readonly localAddress: string;
  readonly connectedAt = Date.now();
  activeAt = this.connectedAt;
  store: GatewayStore;

  readonly #socket: Socket;
  readonly #reader: RequestReader;
  readonly #getRun = new GetRun();
  readonly #resume = () => this.#guard(() => this.#unblock());
  readonly #answer = () =>
    this.#guard(() => {
      this.#answering = undefined;
      if (this.#isRunning) this.#isDue = true;
      else this.#flush();
    });
  readonly #goOn = () => this.#guard(() => this.#stopped());
  readonly #breakOff = (error: unknown) =>
    this.#guard(() => {
      throw error;
    });

  /** Received requests, and the index of the next one to run. */
  #requests: Request[] = [];
  #next = 0;
  /** Memory of these requests; held until all of them have run. */
  #requestBytes = 0;
  /** The rest of a long reply to the last request. */
  #rest: LongReply | undefined;
  /** Messages to send between two replies. */
  #pushes: Uint8Array[] = [];
  #pushBytes = 0;
  #pushing: NodeJS.Immediate | undefined;
  /**
   * Sends the replies after all connections with requests have been served. The first reply sent to
   * a process wakes it, which costs as much as several commands, so the replies to its other
   * connections should be ready by then.
   */
  #answering: NodeJS.Immediate | undefined;
  /** Whether replies or messages were to be sent while a request ran. They go when it has ended. */
  #isDue = false;
  /** Since when the client has left more unread than the soft limit allows, or 0. */
  #overSoftLimitSince = 0;
  /** Waiting for the client to read, for other connections to run, or for a pause to end. */
  #blocked = false;
  #turn: NodeJS.Immediate | undefined;
  /** Whether requests are running; over a network, also a promise of their end. */
  #isRunning = false;
  #flight: Promise<void> | undefined;
  /** Whether the socket is paused until all received requests have run. */
  #isHeld = false;
  /** The client sends nothing more, but may still wait for replies. */
  #inputEnded = false;
  #finished = false;

  constructor({ id, socket, commands, server, onError }: ConnectionOptions) {
    this.#socket = socket;
    this.server = server;
    this.commands = commands;
    this.onError = onError;
    this.address = `${socket.remoteAddress}:${socket.remotePort}`;
    this.localAddress = `${socket.localAddress}:${socket.localPort}`;
    this.state = new ConnectionState(id, server.passwords === undefined ? 'default' : '');
    const limits = requestLimits(server.limits.requestBytesMax);
    this.#reader = new RequestReader(this.state.user === '' ? UNAUTHENTICATED_LIMITS : limits);
    server.memory.open(this);
    this.store = server.databases.get(0).store;
    this.closed = new Promise((resolve) => socket.once('close', () => resolve(this.#flight)));
    socket.once('close', () => this.#release());
    socket.on('data', (chunk) => this.#guard(() => this.#receive(chunk)));
    socket.on('drain', this.#resume);
    socket.on('end', () => this.#guard(() => this.#endInput()));
    // A client that vanishes is no failure of the gateway; 'close' follows and ends the connection.
    socket.on('error', () => {});
  }

  get client(): Client {
    return this;
  }

  get isKept(): boolean {
    return this.state.isKept;
  }

  get protocol(): ProtocolVersion {
    return this.reply.protocol;
  }

  get inputBytes(): number {
    return this.#reader.memoryBytes + this.#requestBytes;
  }

  get outputBytes(): number {
    return this.#socket.writableLength + this.reply.length + this.#pushBytes;
  }

  select(database: number): void {
    this.store = this.server.databases.get(database).store;
    this.state.database = database;
  }

  *changed(kind: EventKind, event: string, key: Uint8Array): Operation<void> {
    const { settings, messages } = this.server;
    if (!settings.notifications.isOn) return;
    const { database } = this.state;
    const published = messagesOf(settings.notifications, { database, kind, event, key });
    for (const [channel, message] of published) yield* messages.notify(channel, message);
  }

  allow(user: string): void {
    this.state.user = user;
    this.#reader.limits = requestLimits(this.server.limits.requestBytesMax);
  }

  /** Messages do not wait for the client to read: beyond a limit the connection ends. */
  push(frame: Uint8Array): void {
    if (this.#finished) return;
    this.#pushes.push(frame);
    this.#pushBytes += frame.length;
    const { hardBytes } = this.server.settings.pubsubOutput;
    if (hardBytes > 0 && this.outputBytes > hardBytes) {
      this.#socket.destroy();
      return;
    }
    this.#pushing ??= setImmediate(() => this.#guard(() => this.#sendPushes()));
  }

  /** Called once a second: ends a connection that has been over a limit for too long. */
  checkLimits(now: number): void {
    const { timeoutSeconds, pubsubOutput } = this.server.settings;
    const isListener = this.state.isSubscriber || this.state.isMonitor;
    const isIdle = !isListener && !this.#isRunning;
    if (timeoutSeconds > 0 && isIdle && now - this.activeAt > timeoutSeconds * 1000) this.kill();
    const { softBytes, softSeconds } = pubsubOutput;
    if (!isListener || softBytes === 0 || this.outputBytes <= softBytes) {
      this.#overSoftLimitSince = 0;
    } else {
      this.#overSoftLimitSince ||= now;
      if (now - this.#overSoftLimitSince >= softSeconds * 1000) this.#socket.destroy();
    }
  }

  kill(): void {
    this.close(LINGER_MS);
  }

  /**
   * Sends the replies so far and that of the running request, runs no further request, and hangs up
   * after at most `graceMs`.
   */
  close(graceMs: number): void {
    if (this.#isRunning) this.state.ended = true;
    else this.#guard(() => this.#finish());
    const timer = setTimeout(() => this.#socket.destroy(), graceMs);
    this.#socket.once('close', () => clearTimeout(timer));
  }

  #receive(chunk: Buffer): void {
    if (this.#finished) return;
    this.server.totals.bytesIn += chunk.length;
    this.activeAt = Date.now();
    const held = this.#reader.memoryBytes;
    const requests = this.#reader.push(chunk);
    // Requests are views of the chunk; the first may also contain bytes held before.
    if (requests.length > 0) this.#requestBytes += held + chunk.length;
    for (const words of requests) this.#requestBytes += words.length * ARGUMENT_BYTES;
    if (this.#next < this.#requests.length) {
      this.#requests = this.#requests.slice(this.#next).concat(requests);
    } else {
      this.#requests = requests;
    }
    this.#next = 0;
    if (this.#isRunning) this.#holdInput();
    else if (!this.#blocked) this.#run();
  }

  /** Received requests wait for the running one; further input waits in the socket. */
  #holdInput(): void {
    this.#isHeld = true;
    this.#socket.pause();
  }

  #unblock(): void {
    if (!this.#blocked || this.#finished) return;
    clearImmediate(this.#turn);
    this.#blocked = false;
    if (!this.#isHeld) this.#socket.resume();
    this.#run();
  }

  #endInput(): void {
    this.#inputEnded = true;
    if (!this.#isRunning && !this.#blocked) this.#run();
  }

  /** Runs all received requests. Their replies are sent together at the end of the turn. */
  #run(): void {
    const running = this.server.pool.run(this.#runAll());
    if (running instanceof Promise) this.#flight = running.then(this.#goOn, this.#breakOff);
    else this.#stopped();
  }

  /** Runs received requests until all have run, or the connection has to wait for something. */
  *#runAll(): Operation<void> {
    this.#isRunning = true;
    try {
      while (this.#hasNext && !this.#blocked) {
        if (this.#isPaused) this.#waitForPause();
        else yield* this.#step();
        if (this.#isDue || this.reply.length > OUTPUT_BYTES_MAX) this.#flush();
        // Over a network, other connections run meanwhile.
        if (this.#flight !== undefined) this.#reportMemory();
      }
    } finally {
      this.#isRunning = false;
    }
  }

  get #hasNext(): boolean {
    if (this.state.ended || this.#finished) return false;
    return this.#rest !== undefined || this.#next < this.#requests.length;
  }

  /** Goes on when `#runAll` has ended. Over a network, the next one may have begun by then. */
  #stopped(): void {
    if (this.#isRunning) return;
    this.#flight = undefined;
    if (this.#finished) return;
    // A client that waited for its replies was not idle.
    this.activeAt = Date.now();
    if (this.#blocked) return;
    // An idle connection must not keep its last input in memory.
    this.#dropRequests();
    const { failure } = this.#reader;
    if (failure !== undefined && !this.state.ended) {
      this.reply.error(`ERR Protocol error: ${failure}`);
      this.state.ended = true;
    }
    if (this.state.ended || this.#inputEnded) this.#finish();
    else if (this.reply.length > 0) this.#answering ??= setImmediate(this.#answer);
    if (!this.#isHeld || this.#blocked) return;
    this.#isHeld = false;
    this.#socket.resume();
  }

  get runsAlone(): boolean {
    if (this.#rest !== undefined || this.state.user === '') return false;
    const command = commandOf(this.#requests[this.#next], this.commands);
    const isQueued = this.state.transaction !== undefined && command?.name !== 'exec';
    return command?.alone === true && !isQueued;
  }

  get operations(): number {
    if (this.#rest !== undefined) return OPERATIONS_MAX;
    const request = this.#requests[this.#next];
    const together = this.#isPlain ? this.#getRun.lengthAt(this.#requests, this.#next) : 0;
    return together || operationsOf(request, this.commands.find(request[0]));
  }

  /** Runs the next request, several GETs together, or a part of a long reply. */
  *#step(): Operation<void> {
    const { gate } = this.server;
    const operations = gate.tryEnter(this) ?? (yield* gate.enter(this));
    try {
      if (this.#rest !== undefined) {
        if (!(yield* writePart(this.#rest, this))) this.#rest = undefined;
      } else if (!this.#finished && !this.#isPaused) {
        const together = this.#isPlain
          ? yield* this.#getRun.serve(this.#requests, this.#next, this)
          : 0;
        if (together === 0) yield* this.#dispatch(this.#requests[this.#next]);
        this.server.totals.commands += together || 1;
        this.#next += together || 1;
      }
    } finally {
      gate.exit(operations);
    }
  }

  /** Whether consecutive GETs may run together. */
  get #isPlain(): boolean {
    const { server, state } = this;
    return (
      state.isPlain && state.replyMode === 'on' && server.monitors.isEmpty && !server.pause.isOn
    );
  }

  *#dispatch(request: Request): Operation<void> {
    const { state, reply } = this;
    const before = reply.length;
    this.#rest = yield* dispatch(request, this);
    if (state.replyMode === 'on') return;
    // Only commands that read have long replies, so nothing is left undone.
    this.#rest = undefined;
    reply.truncate(before);
    if (state.replyMode === 'skip') state.replyMode = 'on';
    else if (state.replyMode === 'skip-next') state.replyMode = 'skip';
  }

  /** Whether CLIENT PAUSE holds the next command back. */
  get #isPaused(): boolean {
    const { pause } = this.server;
    if (!pause.isOn || this.#rest !== undefined) return false;
    const command = this.commands.find(this.#requests[this.#next][0]);
    return pause.holds(command, this.state.transaction?.writes === true);
  }

  #waitForPause(): void {
    this.#flush();
    this.#blocked = true;
    this.#socket.pause();
    this.server.pause.wait(this.#resume);
  }

  #dropRequests(): void {
    this.#requests = [];
    this.#next = 0;
    this.#requestBytes = 0;
    this.#rest = undefined;
  }

  /** Sends messages that came while the connection was idle. */
  #sendPushes(): void {
    this.#pushing = undefined;
    if (this.#finished) return;
    if (this.#isRunning) {
      // A reply that is being written goes first.
      this.#isDue = true;
      return;
    }
    this.#takePushes();
    this.#send();
  }

  /** Appends messages to the complete replies. */
  #takePushes(): void {
    if (this.#rest !== undefined) return;
    for (const frame of this.#pushes) this.reply.encoded(frame);
    this.#pushes = [];
    this.#pushBytes = 0;
  }

  /** Sends what is ready. Blocks further requests while the client has much left to read. */
  #flush(): void {
    this.#isDue = false;
    if (this.#pushes.length > 0) this.#takePushes();
    const { length } = this.reply;
    if (length === 0) return;
    this.#send();
    const socket = this.#socket;
    if (length <= OUTPUT_BYTES_MAX && socket.writableLength <= OUTPUT_BYTES_MAX) return;
    this.#blocked = true;
    socket.pause();
    // 'drain' resumes the connection: the client has read. It may not come if the system took most
    // at once. Then continue in the next turn, so that a fast reader does not hold up others.
    if (socket.writableLength <= OUTPUT_BYTES_MAX) this.#turn = setImmediate(this.#resume);
  }

  #send(): void {
    const socket = this.#socket;
    this.server.totals.bytesOut += this.reply.length;
    if (!this.reply.isOnePiece) socket.cork();
    this.reply.flush(socket);
    socket.uncork();
    // Nothing is queued, so the system has taken all bytes.
    if (socket.writableLength === 0) this.reply.reuse();
  }

  /**
   * Releases what the connection holds. A client that has read all replies is told why; for another
   * one, the reason would only be more unread output in memory.
   */
  evict(): void {
    this.server.totals.evictedConnections++;
    if (this.#answering !== undefined) this.#flush();
    const isReading = this.#socket.writableLength === 0 && this.reply.length === 0;
    if (!isReading || this.#isRunning || this.#finished) {
      this.#release();
      this.#socket.destroy();
      return;
    }
    this.state.ended = true;
    this.#reader.abandon(EVICTED);
    this.reply.error(EVICTED);
    this.#finish();
  }

  #release(): void {
    this.#finished = true;
    clearImmediate(this.#turn);
    clearImmediate(this.#pushing);
    clearImmediate(this.#answering);
    this.#pushes = [];
    this.#dropRequests();
    this.#reader.abandon('the connection is gone');
    this.server.memory.close(this);
    this.server.pause.forget(this.#resume);
  }

  /**
   * Sends what is ready and ends the connection. It still reads and drops input: if any were left
   * in the socket when it closes, the client would see a reset, perhaps before the last reply.
   */
  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#dropRequests();
    this.#reader.abandon('the connection ends');
    const socket = this.#socket;
    this.#flush();
    socket.once('finish', () => {
      const timer = setTimeout(() => socket.destroy(), LINGER_MS);
      socket.once('close', () => clearTimeout(timer));
    });
    socket.end();
    socket.resume();
  }

  /** A failure inside the gateway ends only this connection. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.onError(error, '');
      this.#socket.destroy();
    }
    this.#reportMemory();
  }

  #reportMemory(): void {
    const socket = this.#socket;
    // Output too small for a 'drain' is not counted, because no event says when it was sent.
    const output = (socket.writableNeedDrain ? socket.writableLength : 0) + this.reply.length;
    const { heldBytes } = this.state;
    this.server.memory.update(this, this.inputBytes + output + heldBytes + this.#pushBytes);
  }
}

/** The command or subcommand of a request, whose arguments may be invalid. */
function commandOf(request: Request, commands: CommandTable): Command | undefined {
  const command = commands.find(request[0]);
  if (command?.subcommands === undefined || request.length === 1) return command;
  return subcommandOf(command, request[1]);
}

/** Most operations of the store that a command has in flight at a time. */
function operationsOf(request: Request, command: Command | undefined): number {
  if (command?.keys === undefined) return command?.flags.includes('write') ? OPERATIONS_MAX : 1;
  // The last key counts from the end, so assume as many keys as words.
  return command.keys[1] < 0 ? Math.min(request.length, OPERATIONS_MAX) : 1;
}

const RUN_MIN = 2;
const RUN_FIRST = 16;
const RUN_MAX = 64;

/**
 * The fast path of pipelined reads: one `getMany` serves consecutive GETs, and the store
 * interleaves their lookups. Nothing runs between them, so the order of effects is that of single
 * GETs.
 */
export class GetRun {
  /** Halved while values are so large that a run returns only the first of them. */
  #lengthMax = RUN_FIRST;

  /** The length of the run that begins at `first`; 0 if it has fewer than two requests. */
  lengthAt(requests: readonly Request[], first: number): number {
    const endMax = Math.min(requests.length, first + this.#lengthMax);
    let end = first;
    while (end < endMax && isGet(requests[end])) end++;
    return end - first < RUN_MIN ? 0 : end - first;
  }

  /**
   * Serves the run that begins at `first` and returns its length. After a 0 the command GET runs
   * the request, and reports any error.
   */
  *serve(requests: readonly Request[], first: number, context: CommandContext): Operation<number> {
    const length = this.lengthAt(requests, first);
    if (length === 0) return 0;
    const end = first + length;
    const keys = requests.slice(first, end).map((request) => request[1]);
    const { reply } = context;
    const before = reply.length;
    let values: (Uint8Array | undefined)[];
    try {
      values = yield* context.store.getMany(keys, { maxBytes: OUTPUT_BYTES_MAX });
    } catch {
      return 0;
    }
    const { totals } = context.server;
    for (const value of values) {
      if (value === undefined) totals.misses++;
      else totals.hits++;
      reply.bulkOrNull(value);
    }
    this.#adapt(values.length === keys.length ? reply.length - before : Number.POSITIVE_INFINITY);
    return values.length;
  }

  #adapt(bytes: number): void {
    if (bytes > OUTPUT_BYTES_MAX) this.#lengthMax = Math.max(RUN_MIN, this.#lengthMax >> 1);
    else this.#lengthMax = Math.min(RUN_MAX, this.#lengthMax * 2);
  }
}

function isGet(request: Request): boolean {
  if (request.length !== 2) return false;
  const name = request[0];
  // Upper and lower case of an ASCII letter differ in this one bit.
  return (
    name.length === 3 && (name[0] | 32) === 103 && (name[1] | 32) === 101 && (name[2] | 32) === 116
  );
}
