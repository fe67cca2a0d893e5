import { StepwellError } from '../../../errors.ts';
import { READ, Scratch } from '../../../verbs/index.ts';
import { AWAIT_HEAD_BYTES, AWAITED_BYTES_MAX, verbKind, verbRegion } from '../wire.ts';
import { BeyondMemory, type NodeMemory } from './node-memory.ts';

/** Limits of waiting, in time and in calls. Calls beyond them are answered at once. */
const AWAIT_MS_MAX = 1000;
const AWAITS_MAX = 1024;
const AWAITS_OF_ONE_MAX = 64;
/** Offsets of the verb for the awaited word, and of the first READ. */
const WORD_AT = AWAIT_HEAD_BYTES;
const READS_AT = WORD_AT + 8;
/** How often the node checks for changes by processes that map the memory. */
const LOOK_MS = 1;
/** How long it checks in each turn of the event loop, once it has seen such a change. */
const LIVELY_MS = 1;

interface Waiting {
  readonly client: object;
  /** The verbs of the call, already checked. */
  readonly call: Scratch;
  readonly end: number;
  /** The awaited word: index `at` of `words`. */
  readonly words: Int32Array;
  readonly at: number;
  readonly resultBytes: number;
  readonly until: number;
  readonly answer: (results: Uint8Array) => void;
}

/**
 * The AWAIT calls of all clients: each waits until a word changes, and then READs. A change by a
 * client of this node answers them at once. A process that maps the memory does not notify the
 * node, so while calls wait, the node checks: once a millisecond, or in each turn of its event loop
 * for a millisecond after it has seen such a change.
 */
export class Awaits {
  readonly #memory: NodeMemory;
  readonly #waiting = new Set<Waiting>();
  /** Changes of the memory through this node that `executed` has seen. */
  #seen = 0;
  #livelyUntil = 0;
  #stopLooking: (() => void) | undefined;

  constructor(memory: NodeMemory) {
    this.#memory = memory;
  }

  /**
   * The request: microseconds, a 64-bit word, and the verbs: a READ of the word that may differ
   * from it, and READs whose results are the reply. Raises WireError, RangeError, and
   * SW_POOL_CORRUPT for verbs beyond the memory.
   */
  begin(client: object, request: Uint8Array): Uint8Array | Promise<Uint8Array> {
    const end = request.length;
    if (end > READS_AT + AWAITED_BYTES_MAX) throw new RangeError(`a request of ${end} bytes`);
    const call = new Scratch(end);
    call.u8.set(request);
    const resultBytes = this.#inspect(call, end);
    const words = this.#memory.regions[verbRegion(call.i32[WORD_AT >> 2])].i32;
    const at = call.i32[(WORD_AT >> 2) + 1] >>> 2;
    const ms = Math.min(Math.max(0, call.i32[0]) / 1000, AWAIT_MS_MAX);
    const until = performance.now() + ms;
    return new Promise((answer) => {
      const waiting = { client, call, end, words, at, resultBytes, until, answer };
      if (ms === 0 || !this.#hasRoom(client) || this.#hasChanged(waiting)) this.#answer(waiting);
      else {
        this.#waiting.add(waiting);
        this.#look();
      }
    });
  }

  #inspect(call: Scratch, end: number): number {
    if (end < READS_AT || end % 8 !== 0) throw new RangeError('no word to wait for');
    for (let at = WORD_AT; at < end; at += 8) {
      if (verbKind(call.i32[at >> 2]) !== READ) throw new RangeError('a wait may only READ');
    }
    try {
      if (this.#memory.inspect(call.i32, WORD_AT, READS_AT) !== 8) throw new RangeError('no word');
      const results = this.#memory.inspect(call.i32, READS_AT, end);
      if (results > AWAITED_BYTES_MAX) throw new RangeError(`${results} bytes of results`);
      return results;
    } catch (error) {
      if (!(error instanceof BeyondMemory)) throw error;
      throw new StepwellError('SW_POOL_CORRUPT', error.message);
    }
  }

  #hasRoom(client: object): boolean {
    let own = 0;
    for (const waiting of this.#waiting) if (waiting.client === client) own++;
    return own < AWAITS_OF_ONE_MAX && this.#waiting.size < AWAITS_MAX;
  }

  /** Loads directly: a verb would take three times as long, and each change checks all calls. */
  #hasChanged({ call: { i32 }, words, at }: Waiting): boolean {
    return Atomics.load(words, at) !== i32[2] || Atomics.load(words, at + 1) !== i32[3];
  }

  #answer({ call, end, resultBytes, answer }: Waiting): void {
    const results = new Scratch(resultBytes);
    this.#memory.execute(call, READS_AT, end, results, 0);
    answer(results.u8.subarray(0, resultBytes));
  }

  /** Called after verbs of a client were executed. */
  executed(): void {
    if (this.#waiting.size === 0 || this.#seen === this.#memory.changes) return;
    this.#seen = this.#memory.changes;
    if (this.#answerChanged(0)) this.#livelyUntil = 0;
  }

  #answerChanged(now: number): boolean {
    let hasChanged = false;
    for (const waiting of this.#waiting) {
      const isChanged = this.#hasChanged(waiting);
      if (!isChanged && now < waiting.until) continue;
      hasChanged ||= isChanged;
      this.#waiting.delete(waiting);
      this.#answer(waiting);
    }
    return hasChanged;
  }

  /** Checks repeatedly while calls wait. */
  #look(): void {
    if (this.#stopLooking !== undefined || this.#waiting.size === 0) return;
    const look = () => {
      this.#stopLooking = undefined;
      const now = performance.now();
      if (this.#answerChanged(now)) this.#livelyUntil = now + LIVELY_MS;
      this.#look();
    };
    if (performance.now() < this.#livelyUntil) {
      const immediate = setImmediate(look);
      this.#stopLooking = () => clearImmediate(immediate);
    } else {
      const timer = setTimeout(look, LOOK_MS);
      this.#stopLooking = () => clearTimeout(timer);
    }
  }

  /** Forgets the calls of a client that has gone. */
  drop(client: object): void {
    for (const waiting of this.#waiting) {
      if (waiting.client === client) this.#waiting.delete(waiting);
    }
  }

  close(): void {
    this.#waiting.clear();
    this.#stopLooking?.();
  }
}
