import { connect as connectTcp, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { type ErrorCode, invariant, StepwellError } from '../../../errors.ts';
import type { Batch, Completion } from '../../../verbs/index.ts';
import { type Endpoint, urlHost } from '../endpoint.ts';
import { decodeResults, encodePart, encodeWhole } from '../frame-codec.ts';
import { Greeting, type Welcome } from '../handshake.ts';
import {
  CALL_FRAME,
  CALL_HEAD,
  CHALLENGE,
  callContent,
  FAILURE,
  FRAME_BYTES_MIN,
  type FrameShape,
  HANDSHAKE_BYTES_MAX,
  HEAD_BYTES,
  HEARTBEAT,
  NO_SEQUENCE,
  PROOF,
  padded,
  RESULTS,
  RETURN,
  readCall,
  shapeFor,
  typeOf,
  WELCOME,
  WireError,
} from '../wire.ts';
import type { Part } from './flight.ts';
import { Inbox } from './inbox.ts';
import { Outbox, readFailure } from './outbox.ts';
import { type SentFrame, SentFrames } from './sent-frames.ts';
import { StuckWatch } from './stuck-watch.ts';

const CONNECT_TIMEOUT_MS = 5000;
const SILENCE_MS_MAX = 5000;
const TICKS = 5;
const FLUSH_BYTES = 256 * 1024;
/** Bytes of frames that a node sends beyond the results in them. */
const FRAME_SLACK = 4096;

export interface Credentials {
  /** What client and nodes both know. */
  secret?: Uint8Array;
  /** `true`, or options of node:tls, when the nodes listen with TLS. */
  tls?: boolean | ConnectionOptions;
  /** Shown by the node. */
  name?: string;
  /** How long to wait for a connection, or for a node that is silent (5000). */
  timeoutMs?: number;
}

/** A queue pair's node, out of how many, and the callbacks of its owner. */
export interface Place {
  node: number;
  nodes: number;
  session: number;
  /** The part is answered or has failed. */
  answered(part: Part, error: unknown): void;
  /** All answers of one receive have been passed on. */
  turned(): void;
  lost(error: StepwellError): void;
}

interface Connected {
  resolve: () => void;
  reject: (error: unknown) => void;
}

type Returned = (error: unknown, reply: Uint8Array | undefined) => void;

/** A client's connection to one memory node: frames go out in order, and are answered in order. */
export class QueuePair {
  /** Names the node in errors. */
  readonly label: string;
  /** What the node reported; set once connected. */
  welcome!: Welcome;
  /** How frames are cut for the node; set once connected. */
  #shape!: FrameShape;
  readonly #place: Place;
  readonly #credentials: Credentials;
  readonly #socket: Socket;
  readonly #inbox = new Inbox(HANDSHAKE_BYTES_MAX);
  readonly #outbox: Outbox;
  readonly #waiting: Part[] = [];
  readonly #sent = new SentFrames();
  readonly #calls = new Map<number, Returned>();
  readonly #greeting: Greeting;
  #sequence = 0;
  /** Bytes of requests and of results that are under way. */
  #outstanding = 0;
  #clock: NodeJS.Timeout | undefined;
  #silentTicks = 0;
  readonly #stuck = new StuckWatch();
  #spoke = false;
  #failure: StepwellError | undefined;
  #connected: Connected | undefined;

  private constructor(endpoint: Endpoint, place: Place, credentials: Credentials) {
    this.label = `memory node ${urlHost(endpoint.host)}:${endpoint.port}`;
    this.#place = place;
    this.#credentials = credentials;
    const { tls, secret, name } = credentials;
    this.#greeting = new Greeting(place.session, secret, name);
    // Reads into the inbox itself: a buffer for every receive would be most of the garbage.
    const onread = {
      buffer: () => this.#inbox.room(),
      callback: (bytes: number) => this.#receive(bytes),
    };
    const where = { ...endpoint, onread };
    this.#socket = tls ? connectTls({ ...(tls === true ? {} : tls), ...where }) : connectTcp(where);
    this.#outbox = new Outbox(this.#socket);
    this.#socket.setNoDelay(true);
    this.#socket.on('error', (error) => this.#broken(error));
    this.#socket.on('close', () => this.#lose('SW_NODE_UNREACHABLE', 'the connection was closed'));
  }

  /** Raises SW_NODE_UNREACHABLE, SW_UNAUTHENTICATED, SW_TOO_MANY_CLIENTS or SW_PROTOCOL. */
  static async connect(
    endpoint: Endpoint,
    place: Place,
    credentials: Credentials,
  ): Promise<QueuePair> {
    const pair = new QueuePair(endpoint, place, credentials);
    const timeout = credentials.timeoutMs ?? CONNECT_TIMEOUT_MS;
    const timer = setTimeout(() => {
      pair.#lose('SW_NODE_UNREACHABLE', `no greeting within ${timeout} ms`);
    }, timeout);
    try {
      await new Promise<void>((resolve, reject) => {
        pair.#connected = { resolve, reject };
      });
      return pair;
    } finally {
      clearTimeout(timer);
    }
  }

  get failure(): StepwellError | undefined {
    return this.#failure;
  }

  /** Whether an answer is due. */
  get waits(): boolean {
    return this.#sent.length > 0 || this.#waiting.length > 0 || this.#calls.size > 0;
  }

  /**
   * Takes a part of a batch; the next `flush` sends it. Encodes it at once, while its rows are at
   * hand, unless the node has no room or other parts already wait.
   */
  post(part: Part): void {
    if (!this.waits) this.#socket.ref();
    const canGo = this.#waiting.length === 0 && this.#failure === undefined;
    if (canGo && this.#encodePart(part, this.welcome.outstandingBytesMax)) return;
    this.#waiting.push(part);
  }

  /**
   * Takes a whole batch of verbs, if this is the pool's only node, there is room at once, and one
   * frame is enough. Then it keeps nothing of the batch but the frame, which it returns (valid
   * until the next is posted). Otherwise it posts nothing and returns undefined: the batch has to
   * go as parts.
   */
  postWhole(batch: Batch, completion: Completion): SentFrame | undefined {
    if (this.#waiting.length > 0 || this.#failure !== undefined) return undefined;
    if (this.#outstanding >= this.welcome.outstandingBytesMax) return undefined;
    const isIdle = !this.waits;
    const frame = this.#sent.add();
    const sequence = (this.#sequence + 1) & 0x7fffffff;
    if (!encodeWhole(batch, completion, this.#shape, sequence, this.#outbox, frame)) {
      this.#sent.removeLast();
      return undefined;
    }
    this.#sequence = sequence;
    this.#outstanding += frame.requestBytes + frame.resultBytes;
    if (isIdle) this.#socket.ref();
    if (this.#outbox.length >= FLUSH_BYTES) this.#outbox.flush();
    return frame;
  }

  /** A two-sided call; it is sent by the next `flush`. */
  call(method: number, request: Uint8Array, returned: Returned): void {
    if (this.#failure) {
      returned(this.#failure, undefined);
      return;
    }
    const bytes = HEAD_BYTES + CALL_HEAD + padded(request.length);
    if (bytes > this.welcome.frameBytesMax) {
      const limit = `more than the ${this.welcome.frameBytesMax} of a frame`;
      const why = `${this.label}: a call of ${bytes} bytes, ${limit}`;
      returned(new StepwellError('SW_UNSUPPORTED', why), undefined);
      return;
    }
    if (!this.waits) this.#socket.ref();
    // A call begins after the verbs that were posted before it.
    this.#encode(Number.POSITIVE_INFINITY);
    const sequence = this.#nextSequence();
    this.#calls.set(sequence, returned);
    this.#outbox.put(CALL_FRAME, sequence, callContent(method, request));
  }

  /** Sends what was posted, as far as the node has room for it. */
  flush(): void {
    if (this.#failure) {
      this.#failAll(this.#failure);
      return;
    }
    this.#encode(this.welcome.outstandingBytesMax);
    if (this.#outbox.length > 0) this.#spoke = true;
    this.#outbox.flush();
  }

  /** Verbs and calls under way fail with SW_CLOSED, or with `reason` if there is one. */
  close(reason?: StepwellError): void {
    if (reason) this.#end(reason);
    else this.#lose('SW_CLOSED', 'the connection was closed');
  }

  #encode(limit: number): void {
    let taken = 0;
    for (const part of this.#waiting) {
      if (!this.#encodePart(part, limit)) break;
      taken++;
    }
    if (taken === this.#waiting.length) this.#waiting.length = 0;
    else this.#waiting.splice(0, taken);
  }

  /** Encodes what there is room for. Returns whether that was all of the part. */
  #encodePart(part: Part, limit: number): boolean {
    while (!part.done) {
      if (this.#outstanding >= limit) return false;
      const frame = this.#sent.add();
      encodePart(part, this.#shape, this.#nextSequence(), this.#outbox, frame);
      this.#outstanding += frame.requestBytes + frame.resultBytes;
      if (this.#outbox.length >= FLUSH_BYTES) this.#outbox.flush();
    }
    return true;
  }

  #nextSequence(): number {
    this.#sequence = (this.#sequence + 1) & 0x7fffffff;
    return this.#sequence;
  }

  /** Handles the bytes that came into the inbox. Returns false to stop reading. */
  #receive(received: number): boolean {
    if (this.#failure) return false;
    this.#silentTicks = 0;
    this.#inbox.arrived(received);
    try {
      for (let bytes = this.#inbox.frame(); bytes > 0; bytes = this.#inbox.frame()) {
        this.#understand(bytes);
        if (this.#failure) return false;
      }
    } catch (error) {
      if (!(error instanceof WireError || error instanceof RangeError)) throw error;
      this.#lose('SW_PROTOCOL', error.message, error);
      return false;
    }
    // The answers have made room for parts that wait.
    if (this.#waiting.length > 0) this.flush();
    this.#place.turned();
    if (!this.waits && this.#connected === undefined) this.#socket.unref();
    return true;
  }

  #understand(bytes: number): void {
    const { scratch, start } = this.#inbox;
    const type = typeOf(scratch.i32[start >> 2]);
    const sequence = scratch.i32[(start >> 2) + 1];
    this.#inbox.skip(bytes);
    if (type === RESULTS) {
      this.#results(sequence, start + HEAD_BYTES, bytes - HEAD_BYTES);
      return;
    }
    const content = scratch.u8.slice(start + HEAD_BYTES, start + bytes);
    if (type === RETURN) this.#returned(sequence, content);
    else if (type === FAILURE) this.#failed(sequence, content);
    else if (type === CHALLENGE && this.#connected) this.#challenged(content);
    else if (type === WELCOME && this.#connected) this.#begin(content);
    else if (type !== HEARTBEAT) throw new WireError(`a frame of type ${type}`);
  }

  #results(sequence: number, at: number, bytes: number): void {
    const frame = this.#nextSent(sequence);
    if (bytes !== frame.resultBytes) throw new WireError(`${bytes} bytes of results`);
    decodeResults(frame, this.#shape, this.#inbox.scratch, at);
    this.#answered(frame, undefined);
  }

  /** The frame that is answered, always the oldest. Valid until the next one is encoded. */
  #nextSent(sequence: number): SentFrame {
    const frame = this.#sent.first;
    if (frame?.sequence !== sequence) throw new WireError(`an answer to ${sequence}`);
    this.#sent.removeFirst();
    this.#outstanding -= frame.requestBytes + frame.resultBytes;
    return frame;
  }

  #answered(frame: SentFrame, error: unknown): void {
    const { part, completion } = frame;
    frame.forget();
    if (part === undefined) {
      invariant(completion !== undefined, 'a frame carries no batch');
      completion.completed(error);
      return;
    }
    part.frames--;
    if (error !== undefined) part.flight.error ??= error;
    if (part.done && part.frames === 0) this.#place.answered(part, undefined);
  }

  #returned(sequence: number, content: Uint8Array): void {
    const returned = this.#calls.get(sequence);
    if (returned === undefined) throw new WireError('a reply to no call');
    const { bytes } = readCall(content);
    this.#calls.delete(sequence);
    returned(undefined, bytes);
  }

  #failed(sequence: number, content: Uint8Array): void {
    const { code, message } = readFailure(content);
    if (!code.startsWith('SW_')) throw new WireError('a failure without a code');
    const error = new StepwellError(code as ErrorCode, `${this.label}: ${message}`);
    const returned = this.#calls.get(sequence);
    if (sequence === NO_SEQUENCE) {
      this.#end(error);
    } else if (returned) {
      this.#calls.delete(sequence);
      returned(error, undefined);
    } else {
      this.#answered(this.#nextSent(sequence), error);
    }
  }

  #challenged(content: Uint8Array): void {
    const challenge = this.#greeting.challenged(content);
    if (challenge.needsSecret && this.#credentials.secret === undefined) {
      this.#lose('SW_UNAUTHENTICATED', 'the memory node wants a secret');
      return;
    }
    const isWanted = () => this.#failure === undefined;
    this.#greeting.prove(challenge, isWanted).then((proof) => {
      if (proof === undefined || !isWanted()) return;
      this.#outbox.put(PROOF, 0, proof);
      this.#outbox.flush();
    });
  }

  #begin(content: Uint8Array): void {
    const welcome = this.#greeting.welcomed(content);
    if (welcome === undefined) {
      this.#lose('SW_UNAUTHENTICATED', 'the memory node does not know the secret');
      return;
    }
    const { frameBytesMax } = welcome;
    if (frameBytesMax < FRAME_BYTES_MIN) {
      const wanted = `clients need ${FRAME_BYTES_MIN}`;
      this.#lose('SW_UNSUPPORTED', `it takes frames of ${frameBytesMax} bytes, ${wanted}`);
      return;
    }
    this.welcome = welcome;
    this.#shape = shapeFor(this.#place.node, this.#place.nodes, frameBytesMax);
    this.#inbox.allow(welcome.frameBytesMax + FRAME_SLACK);
    const silenceMsMax = this.#credentials.timeoutMs ?? SILENCE_MS_MAX;
    // Often enough to renew the node's lease, and to notice that the node is gone.
    const tick = Math.min(silenceMsMax / TICKS, welcome.leaseMs / 4);
    const ticksMax = Math.ceil(silenceMsMax / tick);
    this.#clock = setInterval(() => this.#tick(ticksMax, silenceMsMax), tick).unref();
    const connected = this.#connected;
    this.#connected = undefined;
    connected?.resolve();
  }

  /**
   * Counts silence in this client's own ticks. If this client stood still itself, it reads the
   * answers of that time before its next tick.
   */
  #tick(ticksMax: number, silenceMsMax: number): void {
    if (++this.#silentTicks > ticksMax) {
      this.#lose('SW_NODE_UNREACHABLE', `no answer for ${silenceMsMax} ms`);
      return;
    }
    const [call] = this.#calls.keys();
    if (this.#stuck.tick(this.#sent.first?.sequence, call, ticksMax)) {
      this.#lose('SW_NODE_UNREACHABLE', 'it lives, but does not answer');
      return;
    }
    if (!this.#spoke) {
      this.#outbox.put(HEARTBEAT, 0, new Uint8Array(0));
      this.#outbox.flush();
    }
    this.#spoke = false;
  }

  /** A TLS certificate that is not trusted has an error code of its own. */
  #broken(error: Error): void {
    const { authorizationError } = this.#socket as Partial<TLSSocket>;
    const code = authorizationError ? 'SW_UNAUTHENTICATED' : 'SW_NODE_UNREACHABLE';
    const plain = (error as NodeJS.ErrnoException).code === 'ERR_SSL_WRONG_VERSION_NUMBER';
    this.#lose(code, plain ? 'it does not listen with TLS (use tcp:)' : error.message, error);
  }

  #lose(code: ErrorCode, message: string, cause?: unknown): void {
    this.#end(new StepwellError(code, `${this.label}: ${message}`, { cause }));
  }

  #end(error: StepwellError): void {
    if (this.#failure) return;
    this.#failure = error;
    clearInterval(this.#clock);
    this.#socket.destroy();
    this.#connected?.reject(error);
    this.#connected = undefined;
    this.#failAll(error);
    this.#place.lost(error);
  }

  #failAll(error: StepwellError): void {
    const parts = new Set<Part>();
    const whole: Completion[] = [];
    for (const { part, completion } of this.#sent) {
      if (part !== undefined) parts.add(part);
      else if (completion !== undefined) whole.push(completion);
    }
    this.#sent.clear();
    for (const part of this.#waiting.splice(0)) parts.add(part);
    for (const completion of whole) completion.completed(error);
    for (const part of parts) this.#place.answered(part, error);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const returned of calls) returned(error, undefined);
  }
}
