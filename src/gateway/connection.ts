import type { Socket } from 'node:net';
import type { MemoryAccount } from './client-memory.ts';
import type {
  CommandContext,
  CommandTable,
  GatewayStore,
  LongReply,
  ServerView,
} from './command.ts';
import { ConnectionState } from './connection-state.ts';
import { dispatch, type ErrorHook, writePart } from './dispatch.ts';
import { GetRun } from './get-run.ts';
import { OUTPUT_BYTES_MAX } from './limits.ts';
import { ReplyWriter } from './reply.ts';
import { type Request, RequestReader, requestLimits } from './request-reader.ts';

/**
 * What the views and lists of one argument of a request take beside its bytes, about: a client
 * makes a million of them out of six megabytes.
 */
const ARGUMENT_BYTES = 128;
const EVICTED = 'ERR the clients of this server hold too much memory, this one most of all';
/** How long a client may take to hang up once everything has been sent to it. */
const LINGER_MS = 1000;

export interface ConnectionOptions {
  readonly id: number;
  readonly socket: Socket;
  readonly store: GatewayStore;
  readonly commands: CommandTable;
  readonly server: ServerView;
  readonly onError: ErrorHook;
}

/** Everything that belongs to one client: its unread input, its unsent output and its settings. */
export class Connection {
  /** Settles when the connection is gone. */
  readonly closed: Promise<void>;

  readonly #socket: Socket;
  readonly #server: ServerView;
  readonly #onError: ErrorHook;
  readonly #reader: RequestReader;
  readonly #account: MemoryAccount;
  readonly #reply = new ReplyWriter();
  readonly #getRun = new GetRun();
  readonly #state: ConnectionState;
  readonly #context: CommandContext;

  /** Requests that have come, and the first of them that has not run. */
  #requests: Request[] = [];
  #next = 0;
  /** Memory of requests that have come, until all of them have run. */
  #requestBytes = 0;
  /** What is left of the reply to the last request that ran. */
  #rest: LongReply | undefined;
  /** Waiting for the client to read what has been sent, or for other connections' turn. */
  #blocked = false;
  #turn: NodeJS.Immediate | undefined;
  /** The client sends nothing more, but may still be waiting for replies. */
  #inputEnded = false;
  #finished = false;

  constructor({ id, socket, store, commands, server, onError }: ConnectionOptions) {
    this.#socket = socket;
    this.#server = server;
    this.#onError = onError;
    this.#reader = new RequestReader(requestLimits(server.limits.requestBytesMax));
    this.#account = server.memory.open(() => this.#evict());
    this.#state = new ConnectionState(id);
    this.#context = { store, commands, server, state: this.#state, reply: this.#reply };
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
    socket.once('close', () => this.#release());
    socket.on('data', (chunk) => this.#guard(() => this.#receive(chunk)));
    socket.on('drain', () => this.#guard(() => this.#unblock()));
    socket.on('end', () => this.#guard(() => this.#endInput()));
    // A client that vanishes is no failure of the gateway; 'close' follows and ends the connection.
    socket.on('error', () => {});
  }

  /** Sends the replies that are ready, runs nothing more, and hangs up after `graceMs` at most. */
  close(graceMs: number): void {
    this.#guard(() => this.#finish());
    const timer = setTimeout(() => this.#socket.destroy(), graceMs);
    this.#socket.once('close', () => clearTimeout(timer));
  }

  #receive(chunk: Buffer): void {
    if (this.#finished) return;
    this.#server.totals.bytesIn += chunk.length;
    const held = this.#reader.memoryBytes;
    const requests = this.#reader.push(chunk);
    // Requests are views of the chunk, and the first one of what was held before.
    if (requests.length > 0) this.#requestBytes += held + chunk.length;
    for (const words of requests) this.#requestBytes += words.length * ARGUMENT_BYTES;
    if (this.#next < this.#requests.length) {
      this.#requests = this.#requests.slice(this.#next).concat(requests);
    } else {
      this.#requests = requests;
    }
    this.#next = 0;
    if (!this.#blocked) this.#run();
  }

  #unblock(): void {
    if (!this.#blocked || this.#finished) return;
    clearImmediate(this.#turn);
    this.#blocked = false;
    this.#socket.resume();
    this.#run();
  }

  #endInput(): void {
    this.#inputEnded = true;
    if (!this.#blocked) this.#run();
  }

  /** Runs all requests that have come; their replies leave together. */
  #run(): void {
    while (!this.#state.ended && this.#step()) {
      if (this.#reply.length > OUTPUT_BYTES_MAX) this.#flush();
      if (this.#blocked) return;
    }
    // An idle connection must not keep the memory of the last bytes that it read.
    this.#dropRequests();
    const { failure } = this.#reader;
    if (failure !== undefined && !this.#state.ended) {
      this.#reply.error(`ERR Protocol error: ${failure}`);
      this.#state.ended = true;
    }
    if (this.#state.ended || this.#inputEnded) this.#finish();
    else this.#flush();
  }

  /** Runs the next request, or the next few together, or a part of one; false if there is none. */
  #step(): boolean {
    if (this.#rest !== undefined) {
      if (!writePart(this.#rest, this.#context, this.#onError)) this.#rest = undefined;
      return true;
    }
    if (this.#next === this.#requests.length) return false;
    let count = this.#state.isRefusing
      ? 0
      : this.#getRun.serve(this.#requests, this.#next, this.#context);
    if (count === 0) {
      this.#rest = dispatch(this.#requests[this.#next], this.#context, this.#onError);
      count = 1;
    }
    this.#server.totals.commands += count;
    this.#next += count;
    return true;
  }

  #dropRequests(): void {
    this.#requests = [];
    this.#next = 0;
    this.#requestBytes = 0;
    this.#rest = undefined;
  }

  #flush(): void {
    const socket = this.#socket;
    const { length } = this.#reply;
    if (length === 0) return;
    this.#server.totals.bytesOut += length;
    socket.cork();
    this.#reply.flush(socket);
    socket.uncork();
    // Nothing queued means that the system has taken all bytes already.
    if (socket.writableLength === 0) this.#reply.reuse();
    if (length <= OUTPUT_BYTES_MAX && socket.writableLength <= OUTPUT_BYTES_MAX) return;
    this.#blocked = true;
    socket.pause();
    // 'drain' comes when the client has read. When the system has taken much at once it may not
    // come, but a client that reads as fast as it is served must not keep others waiting.
    if (socket.writableLength <= OUTPUT_BYTES_MAX) {
      this.#turn = setImmediate(() => this.#guard(() => this.#unblock()));
    }
  }

  /**
   * Gives up what the connection holds. A client that is not waiting for replies learns why; what
   * others have not read would stay in memory behind the reason.
   */
  #evict(): void {
    this.#server.totals.evictedConnections++;
    const isReading = this.#socket.writableLength === 0 && this.#reply.length === 0;
    if (!isReading || this.#finished) {
      this.#release();
      this.#socket.destroy();
      return;
    }
    this.#state.ended = true;
    this.#reader.abandon(EVICTED);
    this.#reply.error(EVICTED);
    this.#finish();
  }

  /** The connection is gone. */
  #release(): void {
    this.#finished = true;
    clearImmediate(this.#turn);
    this.#dropRequests();
    this.#reader.abandon('the connection is gone');
    this.#account.close();
  }

  /**
   * Sends what is ready and says goodbye. Input is still taken from the socket and dropped: were
   * any left in it when it closes, the client would see a reset, perhaps before the last reply.
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

  /** A failure inside the gateway ends this connection and no other. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#onError(error, '');
      this.#socket.destroy();
    }
    const socket = this.#socket;
    // Of less than makes a 'drain' no event tells that it has been sent.
    const output = (socket.writableNeedDrain ? socket.writableLength : 0) + this.#reply.length;
    this.#account.update(this.#reader.memoryBytes + this.#requestBytes + output);
  }
}
