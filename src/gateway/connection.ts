import type { Socket } from 'node:net';
import type { CommandContext, CommandTable, GatewayStore, ServerView } from './command.ts';
import { dispatch, type ErrorHook } from './dispatch.ts';
import { GetRun } from './get-run.ts';
import { ReplyWriter } from './reply.ts';
import { type Request, RequestReader } from './request-reader.ts';
import { Session } from './session.ts';

/** Output from which on a connection neither reads nor runs requests until its client has read. */
const OUTPUT_BYTES_MAX = 1024 * 1024;
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
  readonly #reader = new RequestReader();
  readonly #reply = new ReplyWriter();
  readonly #getRun = new GetRun();
  readonly #session: Session;
  readonly #context: CommandContext;

  /** Requests that have come, and the first of them that has not run. */
  #requests: Request[] = [];
  #next = 0;
  /** Waiting for the client to read what has been sent. */
  #blocked = false;
  /** The client sends nothing more, but may still be waiting for replies. */
  #inputEnded = false;
  #finished = false;

  constructor({ id, socket, store, commands, server, onError }: ConnectionOptions) {
    this.#socket = socket;
    this.#server = server;
    this.#onError = onError;
    this.#session = new Session(id);
    this.#context = { store, commands, server, session: this.#session, reply: this.#reply };
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
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
    const requests = this.#reader.push(chunk);
    if (this.#next < this.#requests.length) {
      this.#requests = this.#requests.slice(this.#next).concat(requests);
    } else {
      this.#requests = requests;
    }
    this.#next = 0;
    if (!this.#blocked) this.#run();
  }

  #unblock(): void {
    if (!this.#blocked) return;
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
    while (this.#next < this.#requests.length && !this.#session.ended) {
      this.#step();
      if (this.#reply.length > OUTPUT_BYTES_MAX) this.#flush();
      if (this.#blocked) return;
    }
    // An idle connection must not keep the memory of the last bytes that it read.
    this.#requests = [];
    this.#next = 0;
    const { failure } = this.#reader;
    if (failure !== undefined && !this.#session.ended) {
      this.#reply.error(`ERR Protocol error: ${failure}`);
      this.#session.ended = true;
    }
    if (this.#session.ended || this.#inputEnded) this.#finish();
    else this.#flush();
  }

  /** Runs the next request, or the next few together. */
  #step(): void {
    let count = this.#session.isRefusing
      ? 0
      : this.#getRun.serve(this.#requests, this.#next, this.#context);
    if (count === 0) {
      dispatch(this.#requests[this.#next], this.#context, this.#onError);
      count = 1;
    }
    this.#server.totals.commands += count;
    this.#next += count;
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
    if (socket.writableLength > OUTPUT_BYTES_MAX) {
      this.#blocked = true;
      socket.pause();
    }
  }

  /**
   * Sends what is ready and says goodbye. Input is still taken from the socket and dropped: were
   * any left in it when it closes, the client would see a reset, perhaps before the last reply.
   */
  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#requests = [];
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
  }
}
