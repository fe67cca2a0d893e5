import { type Operation, setWord, UnwaitedWrite, writeDouble } from '../verbs/index.ts';

/** Most unwaited WRITEs of one client in flight; it waits for any further one. */
const UNDER_WAY_MAX = 256;

/**
 * WRITEs that a client's operations do not wait for, such as those that note an access. Nothing
 * depends on them, so one may be lost with its client.
 *
 * They are ordered on their own queue pair only. So a client waits for `settled` before it gives up
 * what keeps a block from being reused: its epoch, or the name of a store in its row.
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

  /** Writes the first `count` doubles, at most 8, each as a word. */
  *doubles(address: number, values: Float64Array, count: number): Operation<void> {
    const write = this.#take();
    for (let i = 0; i < count; i++) writeDouble(write.words, 8 * i, values[i]);
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

  /** Resolves when none is in flight; undefined if none is now. */
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
