import { ROW } from '../expected-values.ts';
import { counterName, identify, makeValue, registerName, showValue, tokenName } from '../values.ts';
import { FULL, TestedStore, Violation } from './tested-store.ts';

const REGISTERS = 4;
/** Numbers that registers and tokens have as keys of values. */
const REGISTER_KEYS = 1_000_000;
const TOKEN_KEYS = 2_000_000;

/** Keys that all workers write concurrently: counters, tokens that come and go, registers. */
export class CommonKeys extends TestedStore {
  /** By counter: the highest sum seen. */
  readonly #sums = new Array<number>(this.oracle.shape.counters).fill(0);
  /** By register and row: the number of the row's latest write seen. */
  readonly #seen = Array.from({ length: REGISTERS }, () =>
    new Array<number>(this.oracle.shape.rows).fill(0),
  );

  get commonNames(): string[] {
    const { counters, tokens } = this.oracle.shape;
    const named = (count: number, name: (i: number) => string) =>
      Array.from({ length: count }, (_, i) => name(i));
    return [
      ...named(counters, counterName),
      ...named(tokens, tokenName),
      ...named(REGISTERS, registerName),
    ];
  }

  /** Checks every key while no client writes. */
  verifyAll(): void {
    const { counters, tokens } = this.oracle.shape;
    for (let counter = 0; counter < counters; counter++) {
      const sum = Number(this.store.get(counterName(counter)) ?? 0);
      this.#checkBounds(`counter ${counter}`, sum, counter);
    }
    for (let token = 0; token < tokens; token++) {
      const present = this.store.has(tokenName(token)) ? 1 : 0;
      this.#checkBounds(`the presence of token ${token}`, present, counters + token);
    }
    this.#seen.forEach((_, register) => {
      this.readRegister(register);
    });
  }

  #checkBounds(what: string, is: number, sum: number): void {
    const { low, high } = this.oracle.sums.bounds(sum);
    if (is >= low && is <= high) return;
    throw new Violation(`${what} is ${is}; acknowledged ${low}, at most ${high}`);
  }

  /** Runs `act`, and adds `by` to the oracle's sum if `act` returns true. */
  #tally(sum: number, by: number, act: () => boolean): void {
    this.oracle.sums.begin(this.row, sum, by);
    this.oracle.sums.end(this.row, sum, this.unlessFull(act) === true);
  }

  increment(): void {
    const counter = this.random.below(this.oracle.shape.counters);
    if (counter % 2 === 1) {
      this.compareAndAdd();
      return;
    }
    const by = 1 + this.random.below(9);
    this.#tally(counter, by, () => {
      this.#checkSum(counter, this.store.increment(counterName(counter), by), by);
      return true;
    });
  }

  /** Adds to an odd counter with compareAndSet. */
  compareAndAdd(): void {
    const { counters } = this.oracle.shape;
    const counter = this.random.below(counters) | 1;
    if (counter >= counters) return;
    const name = counterName(counter);
    const by = 1 + this.random.below(9);
    const entry = this.store.getEntry(name);
    const sum = Number(entry?.value ?? 0) + by;
    if (sum - by < this.#sums[counter]) {
      throw new Violation(`counter ${counter} fell from ${this.#sums[counter]} to ${sum - by}`);
    }
    this.#tally(counter, by, () => {
      const isDone =
        entry === undefined
          ? this.store.insert(name, String(sum))
          : this.store.compareAndSet(name, entry.version, String(sum)) !== undefined;
      if (isDone) this.#checkSum(counter, sum, by);
      return isDone;
    });
  }

  /** Sums only grow: a repeated one means that an addition was lost. */
  #checkSum(counter: number, sum: number, by: number): void {
    const own = this.oracle.sums.acknowledged(this.row, counter);
    const least = by + Math.max(this.#sums[counter], own);
    if (sum < least) {
      throw new Violation(`counter ${counter} is ${sum} after adding ${by}; at least ${least}`);
    }
    this.#sums[counter] = sum;
  }

  /** The acknowledged inserts and removals of a token must alternate. */
  insertToken(): void {
    const token = this.random.below(this.oracle.shape.tokens);
    const attempt = this.random.next32() >>> 1;
    const value = makeValue({ key: TOKEN_KEYS + token, attempt, tag: 0 });
    const sum = this.oracle.shape.counters + token;
    this.#tally(sum, 1, () => this.store.insert(tokenName(token), value));
  }

  removeToken(): void {
    const { counters, tokens } = this.oracle.shape;
    const token = this.random.below(tokens);
    const name = tokenName(token);
    const how = this.random.below(3);
    this.#tally(counters + token, -1, () => {
      if (how === 0) return this.store.delete(name);
      if (how === 1) {
        const entry = this.store.getEntry(name);
        return entry !== undefined && this.store.compareAndDelete(name, entry.version);
      }
      const value = this.store.take(name);
      if (value !== undefined && identify(value)?.key !== TOKEN_KEYS + token) {
        throw new Violation(`take of token ${token} got ${showValue(value)}`);
      }
      return value !== undefined;
    });
  }

  writeRegister(): void {
    const register = this.random.below(REGISTERS);
    const attempt = this.oracle.addRow(this.row, ROW.sequence);
    const value = makeValue({ key: REGISTER_KEYS + register, attempt, tag: this.row });
    const outcome = this.unlessFull(() => this.store.set(registerName(register), value));
    if (outcome !== FULL) this.#seen[register][this.row] = attempt;
    if (this.random.below(2) === 0) this.readRegister(register);
  }

  /** Once a row's write has been seen, no earlier write of that row may be read. */
  readRegister(register = this.random.below(REGISTERS)): void {
    const seen = this.#seen[register];
    const value = this.store.get(registerName(register));
    if (value === undefined) {
      if (seen.some((attempt) => attempt > 0)) throw new Violation(`register ${register} is gone`);
      return;
    }
    const identity = identify(value);
    const isRight =
      identity !== undefined &&
      identity.key === REGISTER_KEYS + register &&
      identity.tag < seen.length &&
      identity.attempt >= seen[identity.tag] &&
      identity.attempt <= this.oracle.row(identity.tag, ROW.sequence);
    if (!isRight) {
      throw new Violation(`register ${register} holds ${showValue(value)} after ${seen.join()}`);
    }
    seen[identity.tag] = identity.attempt;
  }
}
