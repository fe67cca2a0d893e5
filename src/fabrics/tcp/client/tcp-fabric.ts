import { randomBytes } from 'node:crypto';
import { hasCode, invariant, StepwellError } from '../../../errors.ts';
import {
  ADDS,
  AWAIT,
  type Batch,
  BYTES_READ,
  BYTES_WRITTEN,
  CALL,
  CALL_HEAD_BYTES,
  CAS,
  type Completion,
  FAA,
  PAUSE,
  READ,
  READS,
  type RemoteFabric,
  ROUND_TRIPS,
  SWAPS,
  TrafficCounters,
  WRITE,
  WRITES,
} from '../../../verbs/index.ts';
import type { Endpoint } from '../endpoint.ts';
import { decodeAwait, encodeAwait } from '../frame-codec.ts';
import type { Welcome } from '../handshake.ts';
import { AWAIT_CHANGE } from '../node-methods.ts';
import { Flight, nodeOf, type PairOrders, type Part, segmentEnd } from './flight.ts';
import { type Credentials, type Place, QueuePair } from './queue-pair.ts';
import type { SentFrame } from './sent-frames.ts';

const SHORT_PAUSE_MICROSECONDS = 500;
/** After so long short pauses end without an answer. */
const PAUSES_MS_MAX = 1;

/** A client's way to one memory node; `QueuePair` says what each part of it does. */
export interface NodePair {
  readonly welcome: Welcome;
  readonly failure: StepwellError | undefined;
  readonly waits: boolean;
  post(part: Part): void;
  postWhole(batch: Batch, completion: Completion): SentFrame | undefined;
  call: QueuePair['call'];
  flush(): void;
  close(reason?: StepwellError): void;
}

/** How a fabric comes by its queue pairs. */
export interface PairMaker {
  connect(endpoint: Endpoint, place: Place, credentials: Credentials): Promise<NodePair>;
  /** Orders that its pairs keep; when absent, they keep all of the contract's. */
  orders?(): PairOrders;
  /** Describes its pairs (see `inspect`). */
  report?(): FabricReport;
  /**
   * Runs it when all code that is ready to run has run, as a `setImmediate` that may come earlier:
   * for pairs whose answers come faster than the event loop turns.
   */
  soon?(flush: () => void): void;
  /** Called once, when no pair is used any more. */
  close?(): void;
}

/** How the verbs of a client run. */
export interface FabricReport {
  /** Such as `ucx`. */
  name: string;
  version: string;
  transports: string;
  /** What executes CAS and FAA at the nodes. */
  atomics: string;
  /** What was found out when the client attached, and what follows. */
  notes: string[];
}

/**
 * Verbs on memory nodes, over TCP when nothing else is said. One queue pair a node; what all
 * operations of the client post in one turn of the event loop leaves in one send a node, and its
 * answers come in one receive.
 *
 * A connection that breaks ends the session: whatever was under way fails and nothing can be posted
 * any more, because no client can tell any longer whether this client was declared dead.
 */
export class TcpFabric implements RemoteFabric {
  readonly traffic = new TrafficCounters();
  readonly session: number;
  readonly #pairs: readonly NodePair[];
  /** The only one of a pool with one node. */
  readonly #only: NodePair | undefined;
  readonly #maker: PairMaker;
  readonly #orders: PairOrders | undefined;
  readonly #idle: Flight[] = [];
  readonly #flush = () => this.#flushAll();
  #scheduled = false;
  /** Flights in a short pause; and the array that they change places with. */
  #pausing: Flight[] = [];
  #resumed: Flight[] = [];
  #pausesEnd: NodeJS.Timeout | undefined;
  #failure: StepwellError | undefined;
  #closed = false;

  private constructor(session: number, pairs: readonly NodePair[], maker: PairMaker) {
    this.session = session;
    this.#pairs = pairs;
    this.#maker = maker;
    this.#orders = maker.orders?.();
    this.#only = pairs.length === 1 ? pairs[0] : undefined;
  }

  /** Connects to all nodes, in the order that deals out the regions. */
  static async connect(
    endpoints: readonly Endpoint[],
    credentials: Credentials = {},
    maker: PairMaker = QueuePair,
  ): Promise<TcpFabric> {
    const session = newSession();
    const owner: { fabric: TcpFabric | undefined } = { fabric: undefined };
    const connecting = endpoints.map((endpoint, node) => {
      const place: Place = {
        node,
        nodes: endpoints.length,
        session,
        answered: (part, error) => owner.fabric?.answered(part, error),
        turned: () => owner.fabric?.turned(),
        lost: (error) => owner.fabric?.lost(error),
      };
      return maker.connect(endpoint, place, credentials);
    });
    const outcomes = await Promise.allSettled(connecting);
    const pairs = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const failed = outcomes.find((one) => one.status === 'rejected');
    const broken = pairs.find(({ failure }) => failure !== undefined);
    if (failed || broken) {
      for (const pair of pairs) pair.close();
      maker.close?.();
      throw failed?.reason ?? broken?.failure;
    }
    owner.fabric = new TcpFabric(session, pairs, maker);
    return owner.fabric;
  }

  get nodes(): number {
    return this.#pairs.length;
  }

  /** Whether its queue pairs keep all of the contract's order by themselves. */
  get keepsOrder(): boolean {
    return this.#orders === undefined;
  }

  /** What the nodes said of themselves. */
  get welcomes() {
    return this.#pairs.map(({ welcome }) => welcome);
  }

  /** Describes how verbs run; undefined over TCP. */
  get report(): FabricReport | undefined {
    return this.#maker.report?.();
  }

  /** Why nothing can be posted any more. */
  get failure(): StepwellError | undefined {
    return this.#failure;
  }

  post(batch: Batch, completion: Completion): void {
    const frame = this.#only?.postWhole(batch, completion);
    if (frame !== undefined) {
      if (frame.isReads) this.#countReads(batch.length, frame.resultBytes);
      else this.#count(batch, 0, batch.length);
      this.#schedule();
      return;
    }
    this.#advance((this.#idle.pop() ?? new Flight()).begin(batch, completion));
  }

  /** A two-sided call to one node, for callers without a batch to put it in. */
  call(node: number, method: number, request: Uint8Array): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#pairs[node].call(method, request, (error, reply) => {
        if (error === undefined) resolve(reply as Uint8Array);
        else reject(error);
      });
      this.#schedule();
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#failure ??= new StepwellError('SW_CLOSED', 'the connection to the pool was closed');
    for (const pair of this.#pairs) pair.close();
    this.#maker.close?.();
    this.turned();
  }

  /** Sends the next segment of a flight, or ends it. */
  #advance(flight: Flight): void {
    const { batch } = flight;
    flight.start = flight.end;
    flight.error ??= this.#failure;
    if (flight.error !== undefined || flight.start === batch.length) {
      if (flight.end === 0) this.#endLater(flight);
      else this.#end(flight);
      return;
    }
    flight.end = segmentEnd(batch, flight.start, this.#pairs.length, this.#orders);
    const kind = batch.kind[flight.start];
    if (kind === PAUSE) this.#pause(flight, batch.bytes[flight.start]);
    else if (kind === AWAIT && this.#orders) this.#pause(flight, 0);
    else if (kind === AWAIT) this.#sendAwait(flight, flight.start);
    else if (kind === CALL) this.#sendCalls(flight);
    else this.#sendVerbs(flight);
  }

  #sendVerbs(flight: Flight): void {
    this.#count(flight.batch, flight.start, flight.end);
    if (this.#pairs.length === 1) {
      flight.pending = 1;
      this.#pairs[0].post(flight.part(0));
      this.#sendAwaitBehind(flight);
    } else {
      const nodes = new Set<number>();
      for (let row = flight.start; row < flight.end; row++) {
        nodes.add(nodeOf(flight.batch.address[row], this.#pairs.length));
      }
      flight.pending = nodes.size;
      let part = 0;
      for (const node of nodes) this.#pairs[node].post(flight.part(part++));
    }
    this.#schedule();
  }

  /** An AWAIT behind the verbs goes with them, unless other queue pairs carry them. */
  #sendAwaitBehind(flight: Flight): void {
    const { batch, end } = flight;
    if (batch.kind[end] !== AWAIT || end >= batch.length || this.#orders) return;
    flight.end = segmentEnd(batch, end, 1);
    this.#sendAwait(flight, end);
    this.traffic.rows[ROUND_TRIPS]--;
  }

  #sendAwait(flight: Flight, first: number): void {
    const { batch, end } = flight;
    const nodes = this.#pairs.length;
    flight.pending++;
    this.#count(batch, first, end);
    const pair = this.#pairs[nodeOf(batch.address[first], nodes)];
    pair.call(AWAIT_CHANGE, encodeAwait(batch, first, end, nodes), (error, reply) => {
      // An older node has no such call: then its READs go as verbs.
      const isUnknown = hasCode(error, 'SW_UNSUPPORTED');
      if (isUnknown) flight.end = first + 1;
      const failure = reply === undefined ? error : decodeAwait(batch, first, end, reply);
      this.#settle(flight, isUnknown ? undefined : failure);
    });
    this.#schedule();
  }

  #sendCalls(flight: Flight): void {
    const { batch } = flight;
    this.traffic.rows[ROUND_TRIPS]++;
    flight.pending = flight.end - flight.start;
    for (let row = flight.start; row < flight.end; row++) {
      const scratch = batch.scratch[row];
      const at = batch.offset[row];
      const room = batch.bytes[row] - CALL_HEAD_BYTES;
      const length = scratch.i32[at >> 2];
      const content = at + CALL_HEAD_BYTES;
      const request = scratch.u8.subarray(content, content + length);
      const node = nodeOf(batch.address[row], this.#pairs.length);
      this.#pairs[node].call(scratch.i32[(at >> 2) + 1], request, (error, reply) => {
        if (reply !== undefined && reply.length > room) {
          flight.error ??= new StepwellError('SW_PROTOCOL', `a reply of ${reply.length} bytes`);
        } else if (reply !== undefined) {
          scratch.i32[at >> 2] = reply.length;
          scratch.i32[(at >> 2) + 1] = 0;
          scratch.u8.set(reply, content);
        }
        this.#settle(flight, error);
      });
    }
    this.#schedule();
  }

  /**
   * A timer is good for milliseconds only. A pause below half a millisecond lasts until the next
   * answer, if any is on its way. Until then, no other operation of this client gets any further,
   * and a client that spins takes the processor from the nodes. But a call may take long: a timer
   * ends the pauses, too.
   */
  #pause(flight: Flight, microseconds: number): void {
    flight.pending = 1;
    if (microseconds >= SHORT_PAUSE_MICROSECONDS) {
      setTimeout(() => this.#settle(flight, undefined), microseconds / 1000);
      return;
    }
    if (this.#maker.soon) {
      setImmediate(() => this.#settle(flight, undefined));
      return;
    }
    this.#pausing.push(flight);
    if (!this.#pairs.some(({ waits }) => waits)) this.#schedule();
    else this.#pausesEnd ??= setTimeout(() => this.turned(), PAUSES_MS_MAX);
  }

  /** Frames were answered, or the session has ended. */
  turned(): void {
    if (this.#pausing.length > 0) this.#schedule();
  }

  #resumeAll(): void {
    clearTimeout(this.#pausesEnd);
    this.#pausesEnd = undefined;
    const resumed = this.#pausing;
    this.#pausing = this.#resumed;
    this.#resumed = resumed;
    for (const flight of resumed) this.#settle(flight, undefined);
    resumed.length = 0;
  }

  answered({ flight }: Part, error: unknown): void {
    this.#settle(flight, error);
  }

  #settle(flight: Flight, error: unknown): void {
    if (error !== undefined) flight.error ??= error;
    if (--flight.pending === 0) this.#advance(flight);
  }

  /**
   * Not on the caller's stack: `post` has to return first. In a method of its own, because a
   * closure in `#advance` would be paid for by every batch.
   */
  #endLater(flight: Flight): void {
    queueMicrotask(() => this.#end(flight));
  }

  #end(flight: Flight): void {
    const { completion, error } = flight;
    invariant(completion !== undefined, 'a flight ends twice');
    // An idle flight must not keep the results of an operation alive.
    flight.completion = undefined;
    this.#idle.push(flight);
    completion.completed(error);
  }

  /** One connection is gone: the session is over on all of them. */
  lost(error: StepwellError): void {
    if (this.#failure) return;
    this.#failure = error;
    for (const pair of this.#pairs) pair.close(error);
    this.turned();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#maker.soon) this.#maker.soon(this.#flush);
    else setImmediate(this.#flush);
  }

  #flushAll(): void {
    this.#scheduled = false;
    if (this.#pausing.length > 0) this.#resumeAll();
    for (const pair of this.#pairs) pair.flush();
  }

  #countReads(reads: number, bytes: number): void {
    const counters = this.traffic.rows;
    counters[ROUND_TRIPS]++;
    counters[READS] += reads;
    counters[BYTES_READ] += bytes;
  }

  #count({ kind: kinds, bytes, isWaitedFor }: Batch, start: number, end: number): void {
    const counters = this.traffic.rows;
    if (isWaitedFor) counters[ROUND_TRIPS]++;
    for (let row = start; row < end; row++) {
      const kind = kinds[row];
      if (kind === READ) {
        counters[READS]++;
        counters[BYTES_READ] += bytes[row];
      } else if (kind === WRITE) {
        counters[WRITES]++;
        counters[BYTES_WRITTEN] += bytes[row];
      } else if (kind === CAS) {
        counters[SWAPS]++;
      } else if (kind === FAA) {
        counters[ADDS]++;
      }
    }
  }
}

/** Never the same twice: a node lets each session in once. */
function newSession(): number {
  return randomBytes(6).readUIntBE(0, 6) + 1;
}
