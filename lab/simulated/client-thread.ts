import { invariant } from '../../src/errors.ts';
import type { Batch, Operation, TrafficCounters, UnwaitedWrite } from '../../src/verbs/index.ts';
import type { LocalDoor } from './local-door.ts';
import { type Nic, QueuePair } from './nodes.ts';

/** What a coroutine ended with; `error` is undefined when its operation returned. */
export interface Ended {
  coroutine: number;
  result: unknown;
  error: unknown;
  /** Virtual times of `start` and of now. */
  began: number;
  ended: number;
}

/** A coroutine's operation, and its batch that is under way. */
export class Flight {
  readonly id: number;
  readonly coroutine: number;
  readonly thread: ClientThread;
  operation: Operation<unknown> | undefined;
  batch: Batch | undefined;
  result: unknown;
  error: unknown;
  failed = false;
  began = 0;
  /** Rows [row, end) are under way; `outstanding` of their verbs are not answered yet. */
  row = 0;
  end = 0;
  outstanding = 0;
  /** When the latest answer so far reaches the client's memory. */
  doneAt = 0;
  /** By row: when the verb arrives at the memory node, and how many lines it has yet to touch. */
  arrival = new Float64Array(16);
  linesLeft = new Int32Array(16);

  constructor(id: number, coroutine: number, thread: ClientThread) {
    this.id = id;
    this.coroutine = coroutine;
    this.thread = thread;
  }

  ensure(rows: number): void {
    if (rows <= this.arrival.length) return;
    this.arrival = new Float64Array(2 * rows);
    this.linesLeft = new Int32Array(2 * rows);
  }
}

/** The network, as a thread uses it. */
export interface Surroundings {
  readonly now: number;
  /** CPU time of a step, which posts `batch` if there is one. */
  cpuNs(thread: ClientThread, batch: Batch | undefined): number;
  /** Ends the thread's current step after `ns`. */
  stepTakes(thread: ClientThread, ns: number): void;
  post(flight: Flight): void;
  /** Adds a flight to a thread, for a batch that no coroutine waits for. */
  newFlight(thread: ClientThread): Flight;
}

/** Marks a flight whose batch no coroutine waits for. */
export const NO_COROUTINE = -1;

/**
 * A thread that runs coroutines, on a compute node or on a memory node's machine. It resumes them
 * one at a time, in the order in which they became ready. Every step takes CPU time, so enough
 * coroutines keep the thread busy (RACE 4.1).
 */
export class ClientThread {
  readonly id: number;
  readonly nic: Nic;
  /** Access to the memory of its own machine, if that is a memory node. */
  readonly door: LocalDoor | undefined;
  readonly traffic: TrafficCounters;
  readonly queuePairs: readonly QueuePair[];
  readonly flights: readonly Flight[];
  readonly #network: Surroundings;
  readonly #onEnded: (ended: Ended) => void;
  /** A ring of the coroutines that are ready, each at most once. */
  readonly #ready: Int32Array;
  #first = 0;
  #waiting = 0;
  #running: Flight | undefined;
  /** Idle flights for batches that no coroutine waits for. */
  readonly #loose: Flight[] = [];
  busyNs = 0;

  constructor(
    id: number,
    nic: Nic,
    traffic: TrafficCounters,
    shape: { firstFlight: number; coroutines: number; memoryNodes: number },
    network: Surroundings,
    onEnded: (ended: Ended) => void,
    door?: LocalDoor,
  ) {
    this.id = id;
    this.door = door;
    this.nic = nic;
    this.traffic = traffic;
    this.#network = network;
    this.#onEnded = onEnded;
    this.queuePairs = Array.from({ length: shape.memoryNodes }, () => new QueuePair());
    this.flights = Array.from(
      { length: shape.coroutines },
      (_, i) => new Flight(shape.firstFlight + i, i, this),
    );
    this.#ready = new Int32Array(shape.coroutines);
  }

  /** Starts an operation on an idle coroutine; `onEnded` is called when it has ended. */
  start(coroutine: number, operation: Operation<unknown>): void {
    const flight = this.flights[coroutine];
    invariant(flight.operation === undefined, 'a coroutine runs one operation at a time');
    flight.operation = operation;
    flight.began = this.#network.now;
    flight.failed = false;
    this.resume(flight);
  }

  /** The coroutine may continue as soon as the CPU is free. */
  resume(flight: Flight): void {
    if (flight.coroutine === NO_COROUTINE) {
      (flight.batch as UnwaitedWrite).completed(flight.error);
      this.#loose.push(flight);
      return;
    }
    const { length } = this.#ready;
    this.#ready[(this.#first + this.#waiting++) % length] = flight.coroutine;
    if (this.#running === undefined) this.#step();
  }

  #step(): void {
    const flight = this.flights[this.#ready[this.#first]];
    this.#first = (this.#first + 1) % this.#ready.length;
    this.#waiting--;
    this.#running = flight;
    this.#advance(flight);
    const ns = this.#network.cpuNs(this, flight.batch);
    this.busyNs += ns;
    this.#network.stepTakes(this, ns);
  }

  /** Runs the operation up to its next batch. An error that it throws becomes its result. */
  #advance(flight: Flight): void {
    const operation = flight.operation as Operation<unknown>;
    const { failed, error } = flight;
    flight.batch = undefined;
    flight.failed = false;
    flight.error = undefined;
    try {
      const step = failed ? operation.throw(error) : operation.next();
      if (step.done) flight.result = step.value;
      else flight.batch = step.value;
    } catch (thrown) {
      flight.failed = true;
      flight.error = thrown;
    }
  }

  /** The CPU has finished the step: posts the batch, or ends the operation. */
  endStep(): void {
    const flight = this.#running as Flight;
    if (flight.batch === undefined) this.#end(flight);
    else if (flight.batch.isWaitedFor) this.#network.post(flight);
    else this.#postUnwaited(flight, flight.batch as UnwaitedWrite);
    this.#running = undefined;
    if (this.#waiting > 0) this.#step();
  }

  /** Posts the WRITE on the same queue pair; the coroutine continues at once. */
  #postUnwaited(flight: Flight, write: UnwaitedWrite): void {
    const loose = this.#loose.pop() ?? this.#network.newFlight(this);
    write.isUnderWay = true;
    loose.batch = write;
    loose.failed = false;
    loose.error = undefined;
    this.#network.post(loose);
    this.resume(flight);
  }

  #end(flight: Flight): void {
    const { coroutine, result, failed, error, began } = flight;
    flight.operation = undefined;
    flight.result = undefined;
    const outcome = failed ? (error ?? new Error('an operation threw nothing')) : undefined;
    this.#onEnded({ coroutine, result, error: outcome, began, ended: this.#network.now });
  }
}
