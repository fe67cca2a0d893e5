import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { StepwellError } from '../../../errors.ts';
import { Inbox } from '../client/inbox.ts';
import { Outbox } from '../client/outbox.ts';
import { CHALLENGES_MAX, readProof, writeChallenge, writeWelcome } from '../handshake.ts';
import { NONCE_BYTES, proofOf, sameProof } from '../secrets.ts';
import {
  BATCH,
  CALL_FRAME,
  CALL_HEAD,
  CHALLENGE,
  callContent,
  frameBytes,
  HANDSHAKE_BYTES_MAX,
  HEAD_BYTES,
  HEARTBEAT,
  headWord,
  NO_SEQUENCE,
  PROOF,
  RESULTS,
  RETURN,
  readCall,
  typeOf,
  WELCOME,
  WireError,
} from '../wire.ts';
import { type Guesses, hasWork } from './guesses.ts';
import { BeyondMemory, type NodeMemory } from './node-memory.ts';
import { ReaderGuard, type RowTable } from './reader-guard.ts';

/** Send when this many bytes of results have gathered. */
const FLUSH_BYTES = 128 * 1024;
/**
 * How many batches, and bytes of their results, to inspect before executing the first. What the
 * inspection loads must still be in the L1 cache when it is copied.
 */
const FRAMES_AHEAD = 64;
const BYTES_AHEAD = 32 * 1024;
const CALLS_OUTSTANDING_MAX = 256;
/** OpenSSL keeps encrypted bytes besides the plain ones, which Node has joined before. */
const TLS_COPIES = 3;

const READERS_READ = 'this secret is for reading: open the store with readOnly: true';

const OTHER_PATH = 'this memory node executes verbs over UCX alone: open the pool by ucx://';

const HANDSHAKE = 0;
const OPEN = 1;
/** Nothing more is executed; what still arrives is dropped until the client disconnects. */
const ENDED = 2;

/** The part of a node that its connections use. */
export interface NodeContext {
  readonly memory: NodeMemory;
  readonly boot: number;
  readonly secret: Uint8Array | undefined;
  /** The secret of read-only clients, and where their rows are. */
  readonly readers: { secret: Uint8Array; rows: RowTable } | undefined;
  readonly guesses: Guesses;
  /** Whether connections execute verbs, rather than a `DataPath`. */
  readonly executesBatches: boolean;
  readonly limits: { frameBytesMax: number; outstandingBytesMax: number; leaseMs: number };
  /** Bytes waiting for all clients together, except in sockets below their high-water mark. */
  buffered: number;
  readonly bufferedBytesMax: number;
  /** Admits the session, or returns why not. */
  admit(connection: NodeConnection): StepwellError | undefined;
  /** Answers a call, now or later. An error that it throws goes to the caller. */
  call(
    connection: NodeConnection,
    method: number,
    request: Uint8Array,
  ): Uint8Array | Promise<Uint8Array>;
  /** Called after verbs were executed. */
  executed(): void;
  closed(connection: NodeConnection): void;
}

/** The node's end of a client's queue pair. Executes its frames in their order. */
export class NodeConnection {
  session = 0;
  name = '';
  /** Ticks of the node's clock since the client last sent anything. */
  silentTicks = 0;
  /** Set for a read-only client. */
  #reader: ReaderGuard | undefined;
  readonly #node: NodeContext;
  readonly socket: Socket;
  readonly #inbox = new Inbox(HANDSHAKE_BYTES_MAX);
  readonly #outbox: Outbox;
  #nonce: Uint8Array = new Uint8Array(0);
  #workBits = 0;
  #challenges = 0;
  readonly #ends = new Int32Array(FRAMES_AHEAD);
  /** For each frame: bytes of results, or -1 if the frame is refused. */
  readonly #results = new Int32Array(FRAMES_AHEAD);
  readonly #refusals: string[] = [];
  #state = HANDSHAKE;
  #calls = 0;
  /** This connection's part of the node's `buffered`. */
  #buffered = 0;
  readonly #copies: number;

  constructor(node: NodeContext, socket: Socket) {
    this.#node = node;
    this.socket = socket;
    this.#outbox = new Outbox(socket);
    this.#copies = 'encrypted' in socket ? TLS_COPIES : 1;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('drain', () => {
      this.#outbox.recycle();
      this.#pump();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#state = ENDED;
      this.#count(0);
      node.closed(this);
    });
    this.#challenge();
    this.#outbox.flush();
  }

  #challenge(): void {
    const { boot, secret, guesses } = this.#node;
    this.#challenges++;
    this.#nonce = randomBytes(NONCE_BYTES);
    this.#workBits = guesses.workBits;
    const challenge = { boot, nonce: this.#nonce, workBits: this.#workBits };
    const needsSecret = secret !== undefined;
    this.#outbox.put(CHALLENGE, 0, writeChallenge({ ...challenge, needsSecret }));
  }

  get readsOnly(): boolean {
    return this.#reader !== undefined;
  }

  get open(): boolean {
    return this.#state === OPEN;
  }

  /** From now on no verb of this client is executed, even if it has arrived already. */
  end(code: string, message: string): void {
    if (this.#state === ENDED) return;
    this.#state = ENDED;
    this.silentTicks = 0;
    this.#outbox.putFailure(NO_SEQUENCE, code, message);
    this.#outbox.flush();
    // Half-close and keep reading: closing with unread bytes would reset the connection, and the
    // client would not learn why.
    this.socket.resume();
    this.socket.end();
  }

  destroy(): void {
    this.#state = ENDED;
    this.socket.destroy();
  }

  #receive(chunk: Buffer): void {
    if (this.#state === ENDED) return;
    this.silentTicks = 0;
    this.#inbox.append(chunk);
    this.#pump();
  }

  /** Executes what has arrived, as long as the client reads the answers. */
  #pump(): void {
    try {
      while (this.#state !== ENDED && !this.#congested()) {
        const bytes = this.#inbox.frame();
        if (bytes === 0) break;
        const type = typeOf(this.#inbox.scratch.i32[this.#inbox.start >> 2]);
        if (type === BATCH && this.#state === OPEN) this.#executeBatches();
        else this.#control(type, bytes);
        if (this.#outbox.length >= FLUSH_BYTES) this.#outbox.flush();
      }
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      this.end('SW_PROTOCOL', error.message);
      return;
    }
    this.#node.executed();
    this.#outbox.flush();
    if (this.#state !== ENDED && this.#congested()) this.socket.pause();
    else this.socket.resume();
  }

  /**
   * A socket may be filled to its high-water mark however much waits for other clients, so slow
   * readers do not stop fast ones. Beyond the mark, 'drain' comes when the socket is empty.
   */
  #congested(): boolean {
    const { limits, bufferedBytesMax } = this.#node;
    const { writableLength: waiting, writableHighWaterMark: share } = this.socket;
    const isBeyond = waiting > share;
    this.#count(isBeyond ? waiting * this.#copies : 0);
    if (waiting > limits.outstandingBytesMax || this.#calls >= CALLS_OUTSTANDING_MAX) return true;
    return isBeyond && this.#node.buffered > bufferedBytesMax;
  }

  #count(bytes: number): void {
    this.#node.buffered += bytes - this.#buffered;
    this.#buffered = bytes;
  }

  /** Inspects the batches that have arrived, up to a limit, then executes them in order. */
  #executeBatches(): void {
    const inbox = this.#inbox;
    const first = inbox.start;
    const count = this.#inspect();
    const { scratch } = inbox;
    for (let i = 0, at = first; i < count; i++) {
      const end = this.#ends[i];
      const sequence = scratch.i32[(at >> 2) + 1];
      const results = this.#results[i];
      if (results < 0) {
        this.#outbox.putFailure(sequence, 'SW_POOL_CORRUPT', this.#refusals.shift() ?? '');
      } else if (!this.#node.executesBatches) {
        this.#outbox.putFailure(sequence, 'SW_UNSUPPORTED', OTHER_PATH);
      } else if (this.#reader?.permits(scratch, at + HEAD_BYTES, end) === false) {
        this.#outbox.putFailure(sequence, 'SW_READ_ONLY', READERS_READ);
      } else {
        const bytes = HEAD_BYTES + results;
        const output = this.#outbox.reserve(bytes);
        const into = this.#outbox.length - bytes;
        output.i32[into >> 2] = headWord(RESULTS, bytes);
        output.i32[(into >> 2) + 1] = sequence;
        this.#node.memory.execute(scratch, at + HEAD_BYTES, end, output, into + HEAD_BYTES);
        this.#reader?.executed(scratch, at + HEAD_BYTES, output, into + HEAD_BYTES);
      }
      at = end;
    }
  }

  #inspect(): number {
    const inbox = this.#inbox;
    const { i32 } = inbox.scratch;
    const { memory, limits } = this.#node;
    let total = 0;
    let count = 0;
    while (count < FRAMES_AHEAD && total < BYTES_AHEAD) {
      const bytes = inbox.frame();
      if (bytes === 0 || typeOf(i32[inbox.start >> 2]) !== BATCH) break;
      const end = inbox.start + bytes;
      let results = -1;
      try {
        results = memory.inspect(i32, inbox.start + HEAD_BYTES, end);
        if (results > limits.frameBytesMax) throw new WireError(`${results} bytes of results`);
        total += results;
      } catch (error) {
        if (!(error instanceof BeyondMemory)) {
          // The frames before it are valid and run first. The next inspection starts with this one.
          if (count > 0) break;
          throw error;
        }
        this.#refusals.push(error.message);
      }
      this.#ends[count] = end;
      this.#results[count++] = results;
      inbox.skip(bytes);
    }
    return count;
  }

  #control(type: number, bytes: number): void {
    const inbox = this.#inbox;
    const { u8, i32 } = inbox.scratch;
    const at = inbox.start;
    const sequence = i32[(at >> 2) + 1];
    inbox.skip(frameBytes(i32[at >> 2]));
    // A copy: when a call is answered, the inbox may contain something else.
    const content = u8.slice(at + HEAD_BYTES, at + bytes);
    if (type === PROOF && this.#state === HANDSHAKE) this.#welcome(content);
    else if (this.#state !== OPEN) throw new WireError(`a frame of type ${type} for a greeting`);
    else if (type === HEARTBEAT) this.#outbox.put(HEARTBEAT, sequence, new Uint8Array(0));
    else if (type === CALL_FRAME) this.#call(sequence, content);
    else throw new WireError(`a frame of type ${type}`);
  }

  #welcome(content: Uint8Array): void {
    const { session, nonce, proof, name } = readProof(content);
    const { boot, secret, readers, limits, memory, guesses } = this.#node;
    // A guesser may have opened connections in advance, when a guess still cost nothing.
    if (guesses.workBits > this.#workBits && this.#challenges < CHALLENGES_MAX) {
      this.#challenge();
      return;
    }
    if (!hasWork(this.#nonce, nonce, Math.max(guesses.workBits, this.#workBits))) {
      this.end('SW_PROTOCOL', 'a proof without the work that was asked for');
      return;
    }
    const transcript = { boot, session, nodeNonce: this.#nonce, clientNonce: nonce };
    const keys = [secret ?? new Uint8Array(0)];
    if (readers !== undefined) keys.push(readers.secret);
    const key = keys.find((one) => sameProof(proof, proofOf('client', one, transcript)));
    if (key === undefined) {
      guesses.note();
      this.end('SW_UNAUTHENTICATED', 'the secret is not the one of this memory node');
      return;
    }
    this.session = session;
    this.name = name;
    if (key === readers?.secret) this.#reader = new ReaderGuard(readers.rows, memory);
    const refusal = this.#node.admit(this);
    if (refusal !== undefined) {
      this.end(refusal.code, refusal.message);
      return;
    }
    this.#state = OPEN;
    this.#inbox.allow(limits.frameBytesMax);
    memory.look();
    const welcome = writeWelcome({
      proof: proofOf('node', key, transcript),
      regions: memory.regions.length,
      regionBytes: memory.regionBytes,
      ...limits,
    });
    this.#outbox.put(WELCOME, 0, welcome);
  }

  #call(sequence: number, content: Uint8Array): void {
    const { method, bytes: request } = readCall(content);
    try {
      const reply = this.#node.call(this, method, request);
      if (reply instanceof Promise) this.#answerLater(sequence, reply);
      else this.#answer(sequence, reply);
    } catch (error) {
      this.#refuse(sequence, error);
    }
  }

  #answerLater(sequence: number, reply: Promise<Uint8Array>): void {
    this.#calls++;
    reply
      .then(
        (bytes) => this.#state === OPEN && this.#answer(sequence, bytes),
        (error) => this.#state === OPEN && this.#refuse(sequence, error),
      )
      .finally(() => {
        this.#calls--;
        if (this.#state === OPEN) this.#pump();
      });
  }

  #answer(sequence: number, reply: Uint8Array): void {
    if (CALL_HEAD + reply.length > this.#node.limits.frameBytesMax - HEAD_BYTES) {
      this.#refuse(sequence, new RangeError(`a reply of ${reply.length} bytes`));
      return;
    }
    this.#outbox.put(RETURN, sequence, callContent(0, reply));
  }

  #refuse(sequence: number, error: unknown): void {
    const { code } = error as { code?: unknown };
    const known = typeof code === 'string' && code.startsWith('SW_') ? code : 'SW_PROTOCOL';
    const message = error instanceof Error ? error.message : String(error);
    this.#outbox.putFailure(sequence, known, message);
  }
}
