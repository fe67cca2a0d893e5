import { type ErrorCode, StepwellError } from '../../../errors.ts';
import { type Completion, type RemoteFabric, TrafficCounters } from '../../../verbs/index.ts';
import { Flight, type Part } from '../../tcp/client/flight.ts';
import { type Credentials, type Place, QueuePair } from '../../tcp/client/queue-pair.ts';
import { StuckWatch } from '../../tcp/client/stuck-watch.ts';
import type { NodePair } from '../../tcp/client/tcp-fabric.ts';
import type { Endpoint } from '../../tcp/endpoint.ts';
import type { Welcome } from '../../tcp/handshake.ts';
import { ATTACH } from '../../tcp/node-methods.ts';
import { WireError } from '../../tcp/wire.ts';
import { IN_PROGRESS, isFailure, OK } from '../binding/library.ts';
import type { UcxEndpoint } from '../binding/worker.ts';
import { type LentMemory, type LentPiece, readLentMemory } from '../lent-memory.ts';
import { BounceRing } from './bounce-ring.ts';
import { PostedGroup } from './posted-group.ts';
import { PostFailure, pieceBytesFor, type RemoteMemory, VerbPoster } from './posting.ts';
import { type ProvenOrders, proveOrders } from './trials.ts';
import type { UcxClient, Waiter } from './ucx-client.ts';

/** Registered memory of one queue pair; limits what it has in flight. */
const RING_BYTES = 1024 * 1024;
/** Verbs of one turn are flushed together, at the latest when they take this much of the ring. */
const GROUP_BYTES = 256 * 1024;
/** How long to wait for the node's reason when UCX reports the end of a session. */
const REASON_MS = 500;
const SILENCE_MS_MAX = 5000;
const TICKS = 5;

/**
 * A client's queue pair to one memory node over UCX. Verbs use an endpoint, everything else the
 * connection that admitted the session. One flush completes everything posted in one turn. It sends
 * no message on any transport, and also proves that WRITEs have been executed.
 */
export class UcxPair implements NodePair, Waiter {
  readonly lent: LentMemory;
  /** The results of the trials; set once connected. */
  proven!: ProvenOrders;
  readonly #poster: VerbPoster;
  readonly #trialPoster: VerbPoster;
  /** Parts of batches on the trial memory, and their completions. */
  readonly #trials = new Map<Part, Completion>();
  readonly #client: UcxClient;
  readonly #control: QueuePair;
  readonly #place: Place;
  readonly #endpoint: UcxEndpoint;
  readonly #ring: BounceRing;
  readonly #waiting: Part[] = [];
  /** Flushed groups that are not complete, oldest first. */
  readonly #underWay: PostedGroup[] = [];
  readonly #idle: PostedGroup[] = [];
  #group = new PostedGroup();
  #completed = 0;
  readonly #stuck = new StuckWatch();
  readonly #clock: NodeJS.Timeout;
  /** The part for which the node was asked about further regions. */
  #asked: Part | 'soon' | undefined;
  #failure: StepwellError | undefined;
  #closed = false;

  private constructor(
    control: QueuePair,
    client: UcxClient,
    place: Place,
    lent: LentMemory,
    silenceMsMax: number,
  ) {
    this.#control = control;
    this.#client = client;
    this.#place = place;
    this.lent = lent;
    const { ucx } = client;
    this.#endpoint = client.connect(lent.workerAddress);
    this.#ring = new BounceRing(ucx, RING_BYTES);
    const { bytes: regionBytes } = lent.trial;
    const pieceBytes = pieceBytesFor(lent.transports.atomics);
    const alone = { node: 0, nodes: 1, regionBytes, pieceBytes, writesOnce: false };
    this.#trialPoster = new VerbPoster(
      ucx,
      this.#endpoint,
      [this.#unpack(lent.trial)],
      this.#ring,
      alone,
    );
    const regions = lent.regions.map((piece) => this.#unpack(piece));
    this.#poster = new VerbPoster(ucx, this.#endpoint, regions, this.#ring, {
      node: place.node,
      nodes: place.nodes,
      regionBytes: control.welcome.regionBytes,
      pieceBytes,
      writesOnce: lent.isMapped,
    });
    this.#clock = setInterval(() => this.#tick(), silenceMsMax / TICKS).unref();
    client.add(this);
  }

  /**
   * Connects by the client that `clientFor` returns for the node's transports. Raises what
   * `QueuePair.connect` raises, and SW_UNSUPPORTED if UCX cannot reach the node.
   */
  static async connect(
    endpoint: Endpoint,
    place: Place,
    credentials: Credentials,
    clientFor: (lent: LentMemory) => UcxClient,
  ): Promise<UcxPair> {
    const link: { pair?: UcxPair } = {};
    const control = await QueuePair.connect(
      endpoint,
      {
        ...place,
        lost: (error) => (link.pair ? link.pair.#end(error) : place.lost(error)),
      },
      credentials,
    );
    try {
      const { regions, regionBytes } = control.welcome;
      const lent = readLentMemory(await attach(control), regions, regionBytes);
      const silenceMsMax = credentials.timeoutMs ?? SILENCE_MS_MAX;
      link.pair = new UcxPair(control, clientFor(lent), place, lent, silenceMsMax);
      link.pair.proven = await proveOrders(link.pair.#trialFabric());
      return link.pair;
    } catch (error) {
      if (link.pair) link.pair.close();
      else control.close();
      if (!(error instanceof WireError)) throw error;
      throw new StepwellError('SW_PROTOCOL', `what the memory node lends: ${error.message}`);
    }
  }

  #unpack({ address, key }: LentPiece): RemoteMemory {
    return { address, key: this.#endpoint.unpackKey(key) };
  }

  get welcome(): Welcome {
    return this.#control.welcome;
  }

  get failure(): StepwellError | undefined {
    return this.#failure ?? this.#control.failure;
  }

  get waits(): boolean {
    return this.isWaiting || this.#waiting.length > 0 || this.#group.parts.length > 0;
  }

  get isWaiting(): boolean {
    return this.#underWay.length > 0;
  }

  /** Posts verbs at once; the flush at the end of the turn asks for their completion. */
  post(part: Part): void {
    if (this.#failure === undefined && this.#waiting.length === 0 && this.#post(part)) return;
    this.#waiting.push(part);
  }

  /** Never posts whole batches, only parts. */
  postWhole(): undefined {
    return undefined;
  }

  call(...words: Parameters<QueuePair['call']>): void {
    this.#control.call(...words);
  }

  flush(): void {
    this.#control.flush();
    if (this.#failure !== undefined) {
      this.#failAll(this.#failure);
      return;
    }
    this.#postWaiting();
    this.#flushGroup();
  }

  close(reason?: StepwellError): void {
    this.#end(reason ?? this.#error('SW_CLOSED', 'the connection was closed'));
  }

  /** Returns whether all of the part was posted, or has failed. */
  #post(part: Part): boolean {
    const poster = this.#trials.has(part) ? this.#trialPoster : this.#poster;
    const beyond = part.row === part.flight.start ? poster.beyond(part) : undefined;
    if (beyond !== undefined) {
      if (poster === this.#poster && this.#waitsForMore(part)) return false;
      this.#refuse(part, beyond);
      return true;
    }
    const group = this.#group;
    const before = this.#ring.mark;
    try {
      const isWhole = poster.post(part, group);
      // A part for which there was no room belongs to no group yet.
      if (isWhole || this.#ring.mark > before) {
        group.parts.push(part);
        part.frames++;
      }
      if (!isWhole || this.#ring.taken - this.#flushed() > GROUP_BYTES) this.#flushGroup();
      return isWhole;
    } catch (error) {
      if (!(error instanceof PostFailure)) throw error;
      group.parts.push(part);
      part.frames++;
      this.#broken(error.status);
      return true;
    }
  }

  /** Bytes of the ring that flushed groups use. */
  #flushed(): number {
    const last = this.#underWay.at(-1);
    return last === undefined ? 0 : this.#ring.taken - (this.#ring.mark - last.mark);
  }

  /**
   * Whether the node may have grown to include what the part names, because its file was lengthened
   * after the session was admitted. Then the part, and those behind it, wait for its answer.
   */
  #waitsForMore(part: Part): boolean {
    if (!this.lent.isMapped || part === this.#asked) return false;
    if (this.#asked === undefined) {
      this.#asked = 'soon';
      this.#askForMore(part);
    }
    return true;
  }

  async #askForMore(part: Part): Promise<void> {
    try {
      const { regions } = this.#poster;
      const { regionBytes } = this.welcome;
      const lent = readLentMemory(await attach(this.#control), regions.length, regionBytes);
      if (this.#closed) return;
      for (const piece of lent.regions.slice(regions.length)) regions.push(this.#unpack(piece));
    } catch {
      // The part is then refused. If the connection has ended, that is reported separately.
    }
    this.#asked = part;
    this.flush();
    this.#asked = undefined;
  }

  /** Fails a part without executing any of it, but not on the caller's stack. */
  #refuse(part: Part, row: number): void {
    const address = part.flight.batch.address[row];
    const why = `verb beyond the memory of the node: address ${address}`;
    part.row = part.flight.end;
    setImmediate(() => this.#tell(part, this.#error('SW_POOL_CORRUPT', why)));
  }

  #postWaiting(): void {
    if (this.#waiting.length === 0) return;
    let taken = 0;
    for (const part of this.#waiting) {
      if (!this.#post(part)) break;
      taken++;
    }
    this.#waiting.splice(0, taken);
  }

  #flushGroup(): void {
    const group = this.#group;
    if (group.parts.length === 0 || this.#failure !== undefined) return;
    group.mark = this.#ring.mark;
    const { ucx } = this.#client;
    group.request = ucx.epFlush(this.#endpoint.handle, this.#endpoint.plainRequest);
    this.#underWay.push(group);
    this.#group = this.#idle.pop() ?? new PostedGroup();
    this.#client.begin();
  }

  complete(): boolean {
    let completed = false;
    while (this.#failure === undefined) {
      const [group] = this.#underWay;
      if (group === undefined) break;
      const status = this.#statusOf(group);
      if (status === IN_PROGRESS) break;
      if (status !== OK) {
        this.#broken(status);
        break;
      }
      completed = true;
      this.#underWay.shift();
      this.#completed++;
      this.#poster.place(group);
      this.#ring.giveBack(group.mark);
      for (const part of group.parts) this.#answered(part);
      group.clear();
      this.#idle.push(group);
    }
    if (!completed) return false;
    if (this.#waiting.length > 0) this.flush();
    this.#place.turned();
    return true;
  }

  #statusOf({ request }: PostedGroup): number {
    if (request <= 0) return request;
    const { ucx } = this.#client;
    const status = ucx.requestStatus(request);
    if (status !== IN_PROGRESS) ucx.requestFree(request);
    return status;
  }

  #answered(part: Part): void {
    part.frames--;
    if (part.done && part.frames === 0) this.#tell(part, undefined);
  }

  #tell(part: Part, error: unknown): void {
    const trial = this.#trials.get(part);
    if (trial === undefined) {
      this.#place.answered(part, error);
      return;
    }
    this.#trials.delete(part);
    trial.completed(error);
  }

  /** Verbs on the trial memory, before there is a fabric. */
  #trialFabric(): RemoteFabric {
    return {
      traffic: new TrafficCounters(),
      post: (batch, completion) => {
        const flight = new Flight().begin(batch, completion);
        flight.end = batch.length;
        const part = flight.part(0);
        this.#trials.set(part, completion);
        this.post(part);
        setImmediate(() => this.flush());
      },
    };
  }

  /** Detects a node that lives but does not execute verbs. */
  #tick(): void {
    const oldest = this.#underWay.length > 0 ? this.#completed : undefined;
    if (!this.#stuck.tick(oldest, undefined, TICKS)) return;
    this.#end(this.#error('SW_NODE_UNREACHABLE', 'it lives, but executes no verbs'));
  }

  /** Waits briefly: the control connection may report the reason. */
  #broken(status: number): void {
    if (this.#failure !== undefined) return;
    const words = isFailure(status) ? this.#client.ucx.statusText(status) : `status ${status}`;
    const failure = this.#error('SW_NODE_UNREACHABLE', `UCX lost it (${words})`);
    this.#failure = failure;
    setTimeout(() => this.#end(failure), REASON_MS).unref();
  }

  #error(code: ErrorCode, why: string): StepwellError {
    return new StepwellError(code, `${this.#control.label}: ${why}`);
  }

  #end(error: StepwellError): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#failure = error;
    clearInterval(this.#clock);
    this.#client.leave(this, this.#endpoint);
    this.#control.close(error);
    this.#failAll(error);
    this.#place.lost(error);
  }

  #failAll(error: StepwellError): void {
    if (!this.#closed) return;
    const parts = new Set(this.#waiting.splice(0));
    for (const group of [...this.#underWay.splice(0), this.#group]) {
      for (const part of group.parts) parts.add(part);
    }
    this.#group = new PostedGroup();
    for (const part of parts) this.#tell(part, error);
  }
}

/** Raises SW_UNSUPPORTED if the node executes verbs only by TCP. */
async function attach(control: QueuePair): Promise<Uint8Array> {
  const answer = new Promise<Uint8Array>((resolve, reject) => {
    control.call(ATTACH, new Uint8Array(0), (error, reply) => {
      if (reply === undefined) reject(error);
      else resolve(reply);
    });
  });
  control.flush();
  try {
    return await answer;
  } catch (error) {
    const { message } = error as Error;
    if (!(error instanceof StepwellError) || !message.includes('has no method')) throw error;
    const why = `the ${control.label} runs without UCX`;
    const remedy = 'start it with --fabric ucx, or open the pool by tcp://';
    throw new StepwellError('SW_UNSUPPORTED', `${why}: ${remedy}`);
  }
}
