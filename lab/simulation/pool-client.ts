import { invariant } from '../../src/errors.ts';
import type { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { ClientThread, Ended } from '../simulated/client-thread.ts';
import type { Place, SimulatedNetwork } from '../simulated/network.ts';
import type { TimedIndex } from './index-kind.ts';

/**
 * How many operations a client runs between two epoch announcements. As in pool/pool.ts for a
 * client without coroutines. An announcement makes all coroutines wait, so more of them share one;
 * but the blocks that they retire in between should fit into the allocator's cache.
 */
const OPERATIONS_PER_QUIESCENCE = 64;
const OPERATIONS_PER_COROUTINE = 16;

/** A client's work: `next` supplies operations until it has none; `ended` is called after each. */
export interface Work {
  next(request: Request): Operation<unknown> | undefined;
  ended?(result: unknown, latencyNs: number): void;
}

/**
 * One client of the pool in virtual time: a thread whose coroutines each run one operation after
 * another. Housekeeping takes time too. The client announces an epoch when all coroutines are
 * between operations, and claims blocks ahead in a separate coroutine (RACE section 4.2).
 */
export class PoolClient<I extends TimedIndex = TimedIndex> {
  readonly pool: LocalPool;
  readonly index: I;
  readonly records: RecordIo;
  readonly #thread: ClientThread;
  readonly #requests: Request[];
  /** The number of the housekeeping coroutine; lower ones run operations. */
  readonly #housekeeper: number;
  #work: Work | undefined;
  #phase: Phase = 'idle';
  #exhausted = false;
  #housekeeping = false;
  #inFlight = 0;
  #budget = 0;

  constructor(
    network: SimulatedNetwork,
    pool: LocalPool,
    index: I,
    records: RecordIo,
    { place, coroutines }: { place: Place; coroutines: number },
  ) {
    this.pool = pool;
    this.index = index;
    this.records = records;
    this.#housekeeper = coroutines;
    this.#requests = Array.from({ length: coroutines }, () => index.newRequest());
    const { traffic } = pool.fabric;
    this.#thread = network.addThread(place, coroutines + 1, traffic, (end) => {
      if (end.coroutine === this.#housekeeper) this.#housekeepingEnded(end);
      else this.#operationEnded(end);
    });
  }

  get busy(): boolean {
    return this.#phase !== 'idle';
  }

  /** Starts the work; the network's `run` carries it out. */
  begin(work: Work): void {
    invariant(!this.busy, 'a client does one work at a time');
    this.#work = work;
    this.#exhausted = false;
    this.#proceed();
  }

  /** Starts the housekeeping that is due, if none is running. */
  #proceed(): void {
    if (this.#housekeeping) return;
    if (this.#inFlight > 0) {
      if (this.#wantsBlocks()) this.#housekeep(this.pool.prefetchBlocks());
      return;
    }
    const { reclamation } = this.pool;
    this.#phase = this.#exhausted ? 'leaving' : 'announcing';
    this.#housekeep(this.#exhausted ? reclamation.goOffline() : this.#announce());
  }

  /** Also claims blocks, because a client that was idle has none. */
  *#announce(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    yield* this.pool.prefetchBlocks();
  }

  #wantsBlocks(): boolean {
    for (const sizeClass of this.pool.allocator.classes()) if (sizeClass.isLow) return true;
    return false;
  }

  #housekeep(operation: Operation<void>): void {
    this.#housekeeping = true;
    this.#thread.start(this.#housekeeper, operation);
  }

  #housekeepingEnded({ error }: Ended): void {
    if (error !== undefined) throw error;
    this.#housekeeping = false;
    if (this.#phase === 'leaving') {
      this.#phase = 'idle';
      return;
    }
    if (this.#phase === 'announcing') this.#startAll();
    this.#proceed();
  }

  #startAll(): void {
    this.#phase = 'working';
    const { length } = this.#requests;
    this.#budget = Math.max(OPERATIONS_PER_QUIESCENCE, OPERATIONS_PER_COROUTINE * length);
    this.#requests.forEach((_, coroutine) => {
      this.#next(coroutine);
    });
  }

  /** Starts the coroutine's next operation, unless it must wait for the next announcement. */
  #next(coroutine: number): void {
    if (this.#budget === 0 || this.#exhausted) return;
    const operation = this.#work?.next(this.#requests[coroutine]);
    if (operation === undefined) {
      this.#exhausted = true;
      return;
    }
    this.#budget--;
    this.#inFlight++;
    this.#thread.start(coroutine, operation);
  }

  #operationEnded({ coroutine, result, error, began, ended }: Ended): void {
    if (error !== undefined) throw error;
    this.#inFlight--;
    this.#work?.ended?.(result, ended - began);
    this.#next(coroutine);
    this.#proceed();
  }
}

/** No operation is in flight while the client announces an epoch or leaves. */
type Phase = 'idle' | 'announcing' | 'working' | 'leaving';
