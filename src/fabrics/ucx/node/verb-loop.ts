/** The thread in which UCX executes the verbs of a memory node: see verb-thread.ts. */
import { openSync } from 'node:fs';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { MappedSource } from '../../shared/mapped-source.ts';
import { failureOf } from '../../start-worker.ts';
import { NODE_REGIONS_MAX } from '../../tcp/wire.ts';
import { UcxContext } from '../binding/context.ts';
import { loadUcx, type UcxLibrary } from '../binding/library.ts';
import { type Memory, ServedSession } from '../lent-memory.ts';
import type { Transports } from '../transports.ts';
import { Bell } from './bell.ts';
import type { VerbAnswer, VerbRequest, VerbThreadOptions } from './verb-thread.ts';

/**
 * After this long without work, a session waits at its descriptor. Clients need about this long
 * between two verbs, and clients on the same machine lose the processor for no longer.
 */
const IDLE_MICROSECONDS_MAX = 50;
/** Turns between two readings of the clock. */
const CLOCK_EVERY = 8;
/** Turns between two checks of waiting sessions, while others work. */
const LOOK_EVERY = 64;
/** Longest poll, in case a bell was missed. */
const WAIT_MS = 1000;
const POLLIN = 1;
const FIELDS = 2;

const { place, regionBytes, transports, bell } = workerData as VerbThreadOptions;

/** Returns the memory to lend, with what was added to its file since (stepwell grow). */
type Look = () => Memory;

function openMemory(ucx: UcxLibrary): Look {
  if (place.kind === 'memory') {
    const regions = place.buffers.map((buffer) => new Uint8Array(buffer));
    for (const region of regions) ucx.adviseHuge(region);
    return () => ({ regions, isMapped: false });
  }
  const source = new MappedSource(place.path, openSync(place.path, 'r+'), regionBytes);
  const regions: Uint8Array[] = [];
  const look = () => {
    while (regions.length < NODE_REGIONS_MAX) {
      const region = source.map(regions.length);
      if (region === undefined) break;
      regions.push(region.u8);
    }
    return { regions, isMapped: true };
  };
  look();
  if (regions.length < place.regions) throw new RangeError(`region ${regions.length} is not there`);
  return look;
}

/** Executes verbs continuously while there are any, and otherwise waits. */
class VerbLoop {
  readonly #ucx: UcxLibrary;
  readonly #context: UcxContext;
  readonly #memory: Look;
  readonly #transports: Transports;
  readonly #bell: Bell;
  readonly #sessions = new Map<number, ServedSession>();
  #working: ServedSession[] = [];
  #armed: ServedSession[] = [];
  #descriptors = new Int32Array(new ArrayBuffer(1024));
  #turns = 0;
  #now = 0;

  constructor(ucx: UcxLibrary, bell: Bell) {
    this.#ucx = ucx;
    this.#bell = bell;
    this.#transports = transports;
    this.#memory = openMemory(ucx);
    this.#context = new UcxContext(ucx, transports);
    try {
      this.#tryLending();
    } catch (error) {
      this.#context.close();
      throw error;
    }
  }

  /** Finds out at the start of the node whether its memory can be lent. */
  #tryLending(): void {
    const trial = new ServedSession(this.#context);
    try {
      trial.lend(this.#context, this.#memory(), transports);
    } finally {
      trial.close();
    }
  }

  run(): void {
    for (;;) {
      if (this.#bell.hasRung() && !this.#obey()) break;
      this.#progress();
      if (this.#working.length === 0) this.#look(WAIT_MS);
      else if (this.#turns % LOOK_EVERY === 0 && this.#armed.length > 0) this.#look(0);
    }
    for (const session of this.#sessions.values()) session.close();
    this.#context.close();
  }

  #progress(): void {
    let resting = 0;
    if (++this.#turns % CLOCK_EVERY === 0) this.#now = performance.now() * 1000;
    for (const session of this.#working) {
      if (session.worker.progress() > 0) session.workedAt = this.#now;
      else if (this.#now - session.workedAt > IDLE_MICROSECONDS_MAX && session.worker.arm()) {
        session.isArmed = true;
        resting++;
      }
    }
    if (resting > 0) this.#sort();
  }

  #sort(): void {
    const sessions = [...this.#sessions.values()];
    this.#working = sessions.filter(({ isArmed }) => !isArmed);
    this.#armed = sessions.filter(({ isArmed }) => isArmed);
  }

  /** Waits for the bell or a session, and wakes the sessions that have work. */
  #look(timeoutMs: number): void {
    const count = this.#armed.length + 1;
    if (this.#descriptors.length < FIELDS * count) {
      this.#descriptors = new Int32Array(new ArrayBuffer(8 * FIELDS * count));
    }
    const descriptors = this.#descriptors;
    descriptors[0] = this.#bell.descriptor;
    descriptors[1] = POLLIN;
    for (const [i, { worker }] of this.#armed.entries()) {
      descriptors[FIELDS * (i + 1)] = worker.descriptor;
      descriptors[FIELDS * (i + 1) + 1] = POLLIN;
    }
    if (this.#ucx.poll(descriptors, count, timeoutMs) <= 0) return;
    let woken = 0;
    for (const [i, session] of this.#armed.entries()) {
      // The returned events are in the upper half.
      if (descriptors[FIELDS * (i + 1) + 1] >>> 16 === 0) continue;
      session.isArmed = false;
      session.workedAt = performance.now() * 1000;
      woken++;
    }
    if (woken > 0) this.#sort();
  }

  /** Handles requests; false to stop. */
  #obey(): boolean {
    for (;;) {
      const received = parentPort && receiveMessageOnPort(parentPort);
      if (!received) return true;
      const request = received.message as VerbRequest;
      if (request.kind === 'stop') return false;
      send(request.kind === 'attach' ? this.#attach(request.session) : this.#end(request.session));
    }
  }

  /** A known session gets the memory that was added since. */
  #attach(id: number): VerbAnswer {
    const known = this.#sessions.get(id);
    let session = known;
    try {
      session ??= new ServedSession(this.#context);
      const lent = session.lend(this.#context, this.#memory(), this.#transports);
      this.#sessions.set(id, session);
      this.#sort();
      return { kind: 'attached', lent };
    } catch (error) {
      if (known === undefined) session?.close();
      return failureOf(error);
    }
  }

  #end(id: number): VerbAnswer {
    this.#sessions.get(id)?.close();
    this.#sessions.delete(id);
    this.#sort();
    return { kind: 'ended' };
  }
}

function send(answer: VerbAnswer): void {
  parentPort?.postMessage(answer);
}

function start(): VerbLoop | undefined {
  try {
    return new VerbLoop(loadUcx(), new Bell(bell));
  } catch (error) {
    send(failureOf(error));
    return undefined;
  }
}

const loop = start();
if (loop !== undefined) {
  send({ kind: 'ready' });
  loop.run();
}
parentPort?.close();
