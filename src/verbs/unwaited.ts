import { Batch } from './batch.ts';
import type { Operation } from './operation.ts';
import { Scratch } from './scratch.ts';
import { setWord } from './words.ts';

/** WRITEs of one client that may be under way together; a further one is waited for. */
const UNDER_WAY_MAX = 256;

/** The most words of one such WRITE. */
const WORDS_MAX = 8;

/**
 * A batch of one WRITE for which its operation does not wait: a fabric whose verbs take time posts
 * it, sets `isUnderWay`, lets the operation go on at once, and calls `completed` when the WRITE has
 * been executed or has failed. Where verbs finish at once it is a batch like any other. Traffic
 * counts it as a WRITE, and as no round trip.
 */
export class UnwaitedWrite extends Batch {
  readonly words = new Scratch(8 * WORDS_MAX);
  isUnderWay = false;
  readonly #completed: (write: UnwaitedWrite) => void;

  constructor(completed: (write: UnwaitedWrite) => void) {
    super();
    this.#completed = completed;
  }

  /** A failure is left to the next verb: a WRITE is lost only with its client's connections. */
  completed(_error: unknown): void {
    if (!this.isUnderWay) return;
    this.isUnderWay = false;
    this.#completed(this);
  }
}

/**
 * The WRITEs of one client that its operations do not wait for, such as those that note an access:
 * nothing depends on them, and one that is lost with its client is missed by no other.
 *
 * On their queue pair they keep the order of the contract, on others nothing tells when they are
 * executed. So a client that gives up what keeps a block from being re-used (its epoch, the name of
 * a store in its row) waits for `settled` first.
 */
export class UnwaitedWrites {
  readonly #idle: UnwaitedWrite[] = [];
  readonly #completed = (write: UnwaitedWrite) => this.#settle(write);
  #underWay = 0;
  #drained: (() => void) | undefined;

  get underWay(): number {
    return this.#underWay;
  }

  /** Writes one aligned word. */
  *word(address: number, low: number, high: number): Operation<void> {
    const write = this.#take();
    setWord(write.words, 0, low, high);
    yield write.clear().write(address, 8, write.words, 0);
    this.#posted(write);
  }

  /** Writes the first `count` doubles, at most 8, one a word. */
  *doubles(address: number, values: Float64Array, count: number): Operation<void> {
    const write = this.#take();
    const { f64 } = write.words;
    for (let i = 0; i < count; i++) f64[i] = values[i];
    yield write.clear().write(address, 8 * count, write.words, 0);
    this.#posted(write);
  }

  #take(): UnwaitedWrite {
    const write = this.#idle.pop() ?? new UnwaitedWrite(this.#completed);
    write.isWaitedFor = this.#underWay >= UNDER_WAY_MAX;
    return write;
  }

  #posted(write: UnwaitedWrite): void {
    if (write.isUnderWay) this.#underWay++;
    else this.#idle.push(write);
  }

  #settle(write: UnwaitedWrite): void {
    this.#idle.push(write);
    if (--this.#underWay > 0) return;
    this.#drained?.();
    this.#drained = undefined;
  }

  /** Returns when none is under way, at once if none is. */
  settled(): Promise<void> | undefined {
    if (this.#underWay === 0) return undefined;
    return new Promise((resolve) => {
      const before = this.#drained;
      this.#drained = () => {
        before?.();
        resolve();
      };
    });
  }
}
