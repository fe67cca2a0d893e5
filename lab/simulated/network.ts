import { invariant } from '../../src/errors.ts';
import { Prng } from '../../src/random/prng.ts';
import {
  type Address,
  AWAIT,
  type Batch,
  CALL,
  CAS,
  FAA,
  PAUSE,
  READ,
  Scratch,
  type TrafficCounters,
  WRITE,
} from '../../src/verbs/index.ts';
import {
  ClientThread,
  type Ended,
  Flight,
  NO_COROUTINE,
  type Surroundings,
} from './client-thread.ts';
import { EventQueue, PARTS_MAX } from './event-queue.ts';
import { LocalDoor, type LocalModel, SHARED_WITH_NIC } from './local-door.ts';
import { type MeasuredUse, measuredUse } from './measured-use.ts';
import { linesOf, type SimulatedMemory } from './memory.ts';
import type { NetworkModel } from './model.ts';
import { MemoryNode, Nic, type QueuePair } from './nodes.ts';
import { sameDoorEnd, segmentEnd } from './segments.ts';
import { countBatch } from './traffic.ts';
import { awaitEnd, inboundBytes, outboundBytes, performLine } from './verb-parts.ts';

/** Kinds of events. The owner of STEP_ENDS is a thread; that of every other kind is a flight. */
const STEP_ENDS = 0;
const VERB_ARRIVES = 1;
const LINE_TOUCHED = 2;
const ANSWER_ARRIVES = 3;
const BATCH_DONE = 4;
const PAUSE_ENDS = 5;
const CALL_SERVED = 6;
const AWAIT_ANSWERED = 7;
const AWAIT_TIMES_OUT = 8;

const NS_PER_SECOND = 1e9;
const BITS_PER_BYTE = 8;

interface NetworkOptions {
  model: NetworkModel;
  memory: SimulatedMemory;
  computeNodes?: number;
  seed: number;
  /**
   * By contract a batch has one queue pair, but over several memory nodes it needs several. With
   * 'ordered', the thread keeps the contract: it holds a verb back until the verbs that must
   * precede it on other nodes are answered. With 'unordered', only each queue pair orders its
   * verbs.
   */
  acrossNodes?: 'ordered' | 'unordered';
  /** How threads on the machine of a memory node reach its memory. */
  local?: LocalModel;
}

/** Where a thread runs: on a compute node (a number), or on the machine of a memory node. */
export type Place = number | { readonly memoryNode: number };

/**
 * Runs operations in virtual time. Client threads post batches; NICs, links and the atomics units
 * of memory nodes delay their verbs. Each line of a verb touches the real bytes at its own time.
 * Queue pairs keep exactly the order of the batch contract (verbs/batch.ts) and nothing more.
 */
export class SimulatedNetwork implements Surroundings {
  readonly model: NetworkModel;
  readonly memory: SimulatedMemory;
  readonly memoryNodes: readonly MemoryNode[];
  readonly computeNics: readonly Nic[];
  readonly threads: ClientThread[] = [];
  readonly #flights: Flight[] = [];
  readonly #events = new EventQueue();
  readonly #prng: Prng;
  readonly #ordered: boolean;
  readonly #messageNs: number;
  readonly #nsPerByte: number;
  readonly #atomicNs: number;
  readonly #oneWayNs: number;
  readonly #local: LocalModel;
  /** Flights that wait for a word to change: the row of the AWAIT, and when it times out. */
  readonly #awaits = new Map<Flight, { row: number; until: number }>();
  readonly #word = new Scratch(8);
  /** By word: when the last wait for a change of it began. */
  readonly awaitedSince = new Map<Address, number>();
  /** Verbs that were posted, and verbs that were answered. */
  posted = 0;
  answered = 0;
  now = 0;
  #measuredSince = 0;
  #stopped = false;

  constructor(options: NetworkOptions) {
    const { model, memory, computeNodes = 1, seed, acrossNodes = 'ordered' } = options;
    this.model = model;
    this.#local = options.local ?? SHARED_WITH_NIC;
    this.memory = memory;
    this.memoryNodes = Array.from({ length: memory.nodes }, (_, i) => new MemoryNode(i, model));
    this.computeNics = Array.from({ length: computeNodes }, () => new Nic());
    this.#prng = Prng.fromSeed(seed);
    this.#ordered = acrossNodes === 'ordered';
    this.#messageNs = NS_PER_SECOND / model.messagesPerSecond;
    this.#nsPerByte = (NS_PER_SECOND * BITS_PER_BYTE) / model.bitsPerSecond;
    this.#atomicNs = NS_PER_SECOND / model.atomicsPerSecond;
    this.#oneWayNs = model.roundTripNs / 2;
  }

  /** Adds a client thread. It calls `onEnded` for each operation that has ended. */
  addThread(
    place: Place,
    coroutines: number,
    traffic: TrafficCounters,
    onEnded: (ended: Ended) => void,
  ): ClientThread {
    const shape = {
      firstFlight: this.#flights.length,
      coroutines,
      memoryNodes: this.memoryNodes.length,
    };
    const { nic, door } = this.#machineAt(place);
    const thread = new ClientThread(this.threads.length, nic, traffic, shape, this, onEnded, door);
    this.threads.push(thread);
    this.#flights.push(...thread.flights);
    return thread;
  }

  /** The NIC of a thread's machine, and its access to that machine's memory, if it has any. */
  #machineAt(place: Place): { nic: Nic; door: LocalDoor | undefined } {
    if (typeof place === 'number') {
      const nic = this.computeNics[place];
      invariant(nic !== undefined, `there is no compute node ${place}`);
      return { nic, door: undefined };
    }
    const node = this.memoryNodes[place.memoryNode];
    invariant(node !== undefined, `there is no memory node ${place.memoryNode}`);
    return { nic: node.nic, door: new LocalDoor(node, this.memory, this.#local) };
  }

  /** Runs until no event is left, `until` is reached, or `stop` is called. */
  run(until = Number.POSITIVE_INFINITY): void {
    this.#stopped = false;
    const events = this.#events;
    while (!this.#stopped && events.nextTime <= until && events.pop()) {
      // The timeout of a wait that was answered does not advance the clock.
      if (events.kind === AWAIT_TIMES_OUT && !this.#isOverdue(events.owner, events.time)) continue;
      this.now = events.time;
      this.#happen(events.kind, events.owner, events.row, events.part);
    }
    if (!this.#stopped && until < Number.POSITIVE_INFINITY) this.now = until;
  }

  #isOverdue(flight: number, time: number): boolean {
    return this.#awaits.get(this.#flights[flight])?.until === time;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Starts to measure how busy the resources are. */
  beginMeasurement(): void {
    this.#measuredSince = this.now;
    for (const nic of this.computeNics) nic.clear();
    for (const node of this.memoryNodes) node.clear();
    for (const thread of this.threads) thread.busyNs = 0;
  }

  measure(): MeasuredUse {
    return measuredUse(this, this.now - this.#measuredSince);
  }

  /** CPU time of a step, which posts `batch` if there is one. A pause costs a step but no verb. */
  cpuNs({ door }: ClientThread, batch: Batch | undefined): number {
    const { stepNs, verbNs } = this.model;
    let ns = stepNs;
    for (let row = 0; row < (batch?.length ?? 0); row++) {
      if (batch === undefined || batch.kind[row] === PAUSE) continue;
      const isLocal = door?.leadsTo(batch, row) ?? false;
      ns += isLocal && door ? door.model.verbNs : verbNs;
      if (batch.kind[row] === AWAIT && !isLocal) row = awaitEnd(batch, row, this.memory) - 1;
    }
    return ns;
  }

  newFlight(thread: ClientThread): Flight {
    const flight = new Flight(this.#flights.length, NO_COROUTINE, thread);
    this.#flights.push(flight);
    return flight;
  }

  stepTakes(thread: ClientThread, ns: number): void {
    this.#events.push(this.now + ns, STEP_ENDS, thread.id);
  }

  post(flight: Flight): void {
    const batch = batchOf(flight);
    countBatch(flight.thread.traffic, batch);
    flight.ensure(batch.length);
    flight.row = 0;
    flight.end = 0;
    this.#issue(flight);
  }

  #happen(kind: number, owner: number, row: number, line: number): void {
    if (kind === STEP_ENDS) {
      this.threads[owner].endStep();
      return;
    }
    const flight = this.#flights[owner];
    if (kind === LINE_TOUCHED) this.#touch(flight, row, line);
    else if (kind === VERB_ARRIVES) this.#arrive(flight, row);
    else if (kind === ANSWER_ARRIVES) this.#answer(flight, row);
    else if (kind === CALL_SERVED) this.#served(flight, row);
    else if (kind === AWAIT_ANSWERED) this.#answerAwait(flight, row);
    else if (kind === AWAIT_TIMES_OUT) this.#endAwaits();
    else this.#issue(flight);
  }

  /** Sends the next verbs of the batch, or resumes the coroutine after the last ones. */
  #issue(flight: Flight): void {
    const { thread, end } = flight;
    const batch = batchOf(flight);
    if (end >= batch.length || flight.failed) {
      thread.resume(flight);
      return;
    }
    flight.row = end;
    if (batch.kind[end] === PAUSE) {
      flight.end = end + 1;
      this.#events.push(this.now + 1000 * batch.bytes[end], PAUSE_ENDS, flight.id);
      return;
    }
    const { nic, door } = thread;
    if (batch.kind[end] === AWAIT && door?.leadsTo(batch, end)) {
      // A thread beside the memory polls the word itself instead of waiting.
      flight.end = end + 1;
      this.#events.push(this.now, PAUSE_ENDS, flight.id);
      return;
    }
    flight.end =
      door === undefined
        ? segmentEnd(batch, end, this.memory, this.#ordered)
        : sameDoorEnd(batch, end, this.memory, door);
    const sent = sentEnd(batch, end, flight.end);
    flight.outstanding = sent - end;
    flight.doneAt = this.now;
    this.posted += flight.outstanding;
    if (door?.leadsTo(batch, end)) {
      this.#events.push(this.now + door.oneWayNs, VERB_ARRIVES, flight.id, end);
      return;
    }
    for (let row = end; row < sent; row++) {
      const begun = nic.messages.serve(this.now, this.#messageNs);
      const bytes = this.model.headerBytes + outboundBytes(batch, row, this.memory);
      flight.arrival[row] = nic.outbound.serve(begun, bytes * this.#nsPerByte) + this.#oneWayNs;
    }
    this.#events.push(flight.arrival[end], VERB_ARRIVES, flight.id, end);
  }

  /** A verb reaches its memory node. The next one of its segment arrives after it. */
  #arrive(flight: Flight, row: number): void {
    const batch = batchOf(flight);
    const address = batch.address[row];
    const kind = batch.kind[row];
    try {
      this.memory.check(address, kind === AWAIT ? 8 : batch.bytes[row]);
    } catch (error) {
      this.#refuse(flight, row, error);
      return;
    }
    const { door } = flight.thread;
    if (door?.leadsTo(batch, row)) {
      this.#performLocally(flight, row, door);
      return;
    }
    if (kind !== AWAIT && row + 1 < flight.end) {
      const at = Math.max(this.now, flight.arrival[row + 1]);
      this.#events.push(at, VERB_ARRIVES, flight.id, row + 1);
    }
    const node = this.memoryNodes[this.memory.nodeOf(address)];
    const bytes = this.model.headerBytes + outboundBytes(batch, row, this.memory);
    const received = node.nic.inbound.receive(this.now, bytes * this.#nsPerByte);
    const ready = node.nic.messages.serve(received, this.#messageNs);
    const queuePair = flight.thread.queuePairs[node.id];
    if (kind === READ) this.#read(flight, row, ready, queuePair);
    else if (kind === WRITE) this.#write(flight, row, ready, queuePair);
    else if (kind === CAS || kind === FAA) this.#atomic(flight, row, ready, node, queuePair);
    else if (kind === CALL) {
      const served = node.cores.serve(ready, this.model.callNs);
      this.#events.push(served, CALL_SERVED, flight.id, row);
    } else if (kind === AWAIT) {
      const ordered = Math.max(ready, queuePair.readDone, queuePair.writeDone);
      const served = node.cores.serve(ordered, this.model.callNs / 2);
      this.#events.push(served, CALL_SERVED, flight.id, row);
    } else invariant(false, `a verb of kind ${kind}`);
  }

  /** The CPU executes verbs in order; an atomic waits until neither CPU nor NIC locks its word. */
  #performLocally(flight: Flight, row: number, door: LocalDoor): void {
    const { kind, address } = batchOf(flight);
    const { readWindowNs, writeWindowNs, wordNs } = door.model;
    const isAtomic = kind[row] === CAS || kind[row] === FAA;
    const ready = Math.max(this.now, door.doneAt);
    const start = isAtomic ? door.node.lockWord(address[row], ready, wordNs) : ready;
    const windowNs = kind[row] === READ ? readWindowNs : writeWindowNs;
    door.doneAt = this.#scatter(flight, row, start, windowNs, 0);
    if (row + 1 < flight.end) this.#events.push(door.doneAt, VERB_ARRIVES, flight.id, row + 1);
  }

  /** A READ waits for all verbs ahead of it on its queue pair. */
  #read(flight: Flight, row: number, ready: number, queuePair: QueuePair): void {
    const start = Math.max(ready, queuePair.readDone, queuePair.writeDone);
    queuePair.readDone = this.#scatter(flight, row, start, this.model.readWindowNs);
  }

  /** A WRITE waits only for WRITEs ahead of it: it may overtake READs and atomics. */
  #write(flight: Flight, row: number, ready: number, queuePair: QueuePair): void {
    const start = Math.max(ready, queuePair.writeDone);
    queuePair.writeDone = this.#scatter(flight, row, start, this.model.writeWindowNs);
  }

  /**
   * The unit executes atomics one by one as they arrive. Atomics on one word wait for each other.
   * An atomic also waits for the verbs ahead of it on its queue pair, without occupying the unit.
   */
  #atomic(
    flight: Flight,
    row: number,
    ready: number,
    node: MemoryNode,
    queuePair: QueuePair,
  ): void {
    const begun = node.atomics.begin(ready, this.#atomicNs);
    const ordered = Math.max(begun, queuePair.readDone, queuePair.writeDone);
    const address = batchOf(flight).address[row];
    const start = node.lockWord(address, ordered, this.model.wordNs);
    queuePair.readDone = this.#scatter(flight, row, start, this.model.writeWindowNs);
  }

  /** Schedules each line of a verb at a random time; returns the latest. */
  #scatter(
    flight: Flight,
    row: number,
    start: number,
    windowNs: number,
    packetNs = this.model.packetNs,
  ): number {
    const { address, bytes } = batchOf(flight);
    const lines = linesOf(address[row], bytes[row]);
    invariant(lines <= PARTS_MAX, 'a verb of too many lines');
    const { packetBytes } = this.model;
    const window = windowNs + packetNs * Math.max(0, Math.ceil(bytes[row] / packetBytes) - 1);
    flight.linesLeft[row] = lines;
    let last = start;
    for (let line = 0; line < lines; line++) {
      const at = start + (window * this.#prng.next32()) / 2 ** 32;
      if (at > last) last = at;
      this.#events.push(at, LINE_TOUCHED, flight.id, row, line);
    }
    return last;
  }

  #touch(flight: Flight, row: number, line: number): void {
    const batch = batchOf(flight);
    performLine(this.memory, batch, row, line);
    if (this.#awaits.size > 0) this.#endAwaits();
    if (--flight.linesLeft[row] > 0) return;
    const { door } = flight.thread;
    if (door?.leadsTo(batch, row)) this.#complete(flight, 1, this.now + door.oneWayNs);
    else this.#sendAnswer(flight, row);
  }

  #served(flight: Flight, row: number): void {
    const { address, kind, bytes, scratch, offset } = batchOf(flight);
    if (kind[row] === AWAIT) {
      this.awaitedSince.set(address[row], this.now);
      const until = this.now + 1000 * bytes[row];
      this.#awaits.set(flight, { row, until });
      this.#events.push(until, AWAIT_TIMES_OUT, flight.id);
      this.#endAwaits();
      return;
    }
    const handler = this.memory.handlers[this.memory.nodeOf(address[row])];
    handler?.(scratch[row], offset[row]);
    this.#sendAnswer(flight, row);
  }

  /** Ends waits whose word has changed or that time out; a core of the node answers each. */
  #endAwaits(): void {
    for (const [flight, { row, until }] of this.#awaits) {
      const { address, scratch, offset } = batchOf(flight);
      this.memory.read(address[row], 8, this.#word, 0);
      const { i32 } = scratch[row];
      const at = offset[row] >> 2;
      const isSame = this.#word.i32[0] === i32[at] && this.#word.i32[1] === i32[at + 1];
      if (isSame && this.now < until) continue;
      this.#awaits.delete(flight);
      const node = this.memoryNodes[this.memory.nodeOf(address[row])];
      const answered = node.cores.serve(this.now, this.model.callNs / 2);
      this.#events.push(answered, AWAIT_ANSWERED, flight.id, row);
    }
  }

  /** The core executes the READs behind the AWAIT, one line after another. */
  #answerAwait(flight: Flight, row: number): void {
    const batch = batchOf(flight);
    for (let read = row + 1; read < flight.end; read++) {
      const lines = linesOf(batch.address[read], batch.bytes[read]);
      for (let line = 0; line < lines; line++) performLine(this.memory, batch, read, line);
    }
    this.#sendAnswer(flight, row);
  }

  #sendAnswer(flight: Flight, row: number): void {
    const batch = batchOf(flight);
    const { nic } = this.memoryNodes[this.memory.nodeOf(batch.address[row])];
    const bytes = this.model.headerBytes + inboundBytes(batch, row, this.memory);
    const sent = nic.outbound.serve(this.now, bytes * this.#nsPerByte);
    this.#events.push(sent + this.#oneWayNs, ANSWER_ARRIVES, flight.id, row);
  }

  #answer(flight: Flight, row: number): void {
    const batch = batchOf(flight);
    const bytes = this.model.headerBytes + inboundBytes(batch, row, this.memory);
    const done = flight.thread.nic.inbound.receive(this.now, bytes * this.#nsPerByte);
    this.#complete(flight, 1, done);
  }

  #complete(flight: Flight, verbs: number, done: number): void {
    this.answered += verbs;
    flight.outstanding -= verbs;
    invariant(flight.outstanding >= 0, 'a verb is answered once');
    flight.doneAt = Math.max(flight.doneAt, done);
    if (flight.outstanding > 0) return;
    if (flight.doneAt > this.now) this.#events.push(flight.doneAt, BATCH_DONE, flight.id);
    else this.#issue(flight);
  }

  /** The node refuses a verb and those behind it. The operation gets the error. */
  #refuse(flight: Flight, row: number, error: unknown): void {
    flight.failed = true;
    flight.error = error;
    const posted = sentEnd(batchOf(flight), row, flight.end);
    this.#complete(flight, posted - row, this.now + this.#oneWayNs);
  }
}

/** End of the rows that are sent as separate messages: an AWAIT carries the READs behind it. */
function sentEnd({ kind }: Batch, first: number, end: number): number {
  for (let row = first; row < end; row++) if (kind[row] === AWAIT) return row + 1;
  return end;
}

function batchOf({ batch }: Flight): Batch {
  invariant(batch !== undefined, 'a verb without a batch');
  return batch;
}
