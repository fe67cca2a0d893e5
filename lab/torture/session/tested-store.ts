import { hasCode } from '../../../src/errors.ts';
import type { Key, Store } from '../../../src/store/api.ts';
import type { Prng } from '../../workloads/index.ts';
import { type ExpectedValues, ROW } from '../expected-values.ts';
import { ownedName, showValue } from '../values.ts';

/** Something that Stepwell must never do. */
export class Violation extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Violation';
  }
}

export const FULL = Symbol('the pool is full');

export interface Party {
  store: Store;
  oracle: ExpectedValues;
  /** The worker's row in the oracle. */
  row: number;
  random: Prng;
}

/** A worker's store, and the oracle that knows its possible contents. */
export class TestedStore implements Party {
  readonly store: Store;
  readonly oracle: ExpectedValues;
  readonly row: number;
  readonly random: Prng;
  readonly names: readonly string[];

  constructor({ store, oracle, row, random }: Party) {
    this.store = store;
    this.oracle = oracle;
    this.row = row;
    this.random = random;
    this.names = Array.from({ length: oracle.shape.keys }, (_, key) => ownedName(key));
  }

  /** A random key. More and more keys are in use, so that the table keeps splitting. */
  anyKey(): number {
    const used = 32 + this.oracle.row(this.row, ROW.heartbeat) / 4;
    return this.random.below(Math.min(this.names.length, used));
  }

  /** The same key as a string or as bytes. */
  spell(key: number): Key {
    const name = this.names[key];
    return this.random.below(4) === 0 ? Buffer.from(name) : name;
  }

  /**
   * A call that finds the pool full must change nothing. A full pool, or a stuck lock, is allowed
   * only while a worker is stopped.
   */
  unlessFull<T>(act: () => T): T | typeof FULL {
    const allowed = this.oracle.fullAllowed;
    try {
      return act();
    } catch (error) {
      const isStuck = hasCode(error, 'SW_CONTENTION');
      if (isStuck && (allowed || this.oracle.fullAllowed)) return FULL;
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      this.oracle.addRow(this.row, ROW.poolFull);
      if (allowed || this.oracle.fullAllowed) return FULL;
      throw new Violation(`the pool is full although nobody holds back re-use: ${error.message}`);
    }
  }

  fail(key: number, text: string): never {
    const state = this.oracle.describe(key);
    throw new Violation(`key ${key} (${state}): ${text}; ${this.#lookAgain(key)}`);
  }

  /** Distinguishes a transient fault from a lasting one. */
  #lookAgain(key: number): string {
    try {
      const again = showValue(this.store.get(this.names[key]));
      const walked = [...this.store.keys()].filter((name) => name === this.names[key]).length;
      return `a second get got ${again}, a second walk met it ${walked} times`;
    } catch (error) {
      return `a second look failed: ${(error as Error).message}`;
    }
  }
}
