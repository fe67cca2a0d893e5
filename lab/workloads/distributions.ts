import type { Prng } from '../../src/random/prng.ts';
import { Permutation } from './permutation.ts';

/** The constant of YCSB (Cooper et al., 2010). */
export const YCSB_ZIPF = 0.99;

export const DISTRIBUTION_NAMES = ['uniform', 'zipf', 'latest'] as const;
export type DistributionName = (typeof DISTRIBUTION_NAMES)[number];

/** Chooses the record of each request. */
export interface Distribution {
  readonly name: DistributionName;
  /** The index of a record, in [0, records). */
  next(): number;
}

export function distribution(name: DistributionName, records: number, prng: Prng): Distribution {
  if (name === 'uniform') return new Uniform(records, prng);
  if (name === 'zipf') return new ScrambledZipf(records, prng);
  return new Latest(records, prng);
}

export class Uniform implements Distribution {
  readonly name = 'uniform';
  readonly records: number;
  readonly #prng: Prng;

  constructor(records: number, prng: Prng) {
    this.records = requireRecords(records);
    this.#prng = prng;
  }

  next(): number {
    return this.#prng.below(this.records);
  }
}

/**
 * Ranks by Zipf's law: rank r (from 0) has probability 1 / (r + 1)^theta / zeta(n, theta). The
 * method is that of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD
 * 1994), which YCSB uses: ranks 0 and 1 are exact, the others a continuous approximation.
 */
export class ZipfRanks {
  readonly theta: number;
  readonly #prng: Prng;
  #records = 0;
  #zeta = 0;
  #eta = 0;

  constructor(records: number, prng: Prng, theta = YCSB_ZIPF) {
    if (!(theta > 0 && theta < 1)) throw new RangeError(`theta must be in (0, 1), got ${theta}`);
    this.theta = theta;
    this.#prng = prng;
    this.resize(records);
  }

  get records(): number {
    return this.#records;
  }

  resize(records: number): void {
    requireRecords(records);
    // `Latest` grows by one record at a time: add the new terms instead of summing all of them.
    const grown = records - this.#records;
    if (this.#records > 0 && grown >= 0 && grown <= 1024) {
      for (let i = this.#records + 1; i <= records; i++) this.#zeta += i ** -this.theta;
    } else this.#zeta = zeta(records, this.theta);
    this.#records = records;
    const smallest = 1 - (2 / records) ** (1 - this.theta);
    this.#eta = smallest / (1 - zeta(2, this.theta) / this.#zeta);
  }

  next(): number {
    const uniform = this.#prng.nextDouble();
    const scaled = uniform * this.#zeta;
    if (scaled < 1 || this.#records === 1) return 0;
    if (scaled < 1 + 0.5 ** this.theta) return 1;
    const base = this.#eta * uniform - this.#eta + 1;
    const rank = Math.floor(this.#records * base ** (1 / (1 - this.theta)));
    return Math.min(rank, this.#records - 1);
  }

  /** The analytic probability of a rank. */
  share(rank: number): number {
    return (rank + 1) ** -this.theta / this.#zeta;
  }
}

/**
 * Zipf's law with the hot records spread over the table. YCSB hashes ranks modulo the record count,
 * which lets ranks collide and leaves a third of the records out; a permutation keeps every
 * record's share at its analytic value.
 */
export class ScrambledZipf implements Distribution {
  readonly name = 'zipf';
  readonly #ranks: ZipfRanks;
  readonly #scramble: Permutation;

  constructor(records: number, prng: Prng, theta = YCSB_ZIPF, scrambleSeed = 0) {
    this.#ranks = new ZipfRanks(records, prng, theta);
    this.#scramble = new Permutation(records, scrambleSeed);
  }

  next(): number {
    return this.#scramble.at(this.#ranks.next());
  }

  /** The record with the given popularity; 0 is the hottest. */
  recordOfRank(rank: number): number {
    return this.#scramble.at(rank);
  }

  share(rank: number): number {
    return this.#ranks.share(rank);
  }
}

/** The newest record is the hottest (YCSB workload D); `insert` makes a newer one. */
export class Latest implements Distribution {
  readonly name = 'latest';
  readonly #ranks: ZipfRanks;

  constructor(records: number, prng: Prng, theta = YCSB_ZIPF) {
    this.#ranks = new ZipfRanks(records, prng, theta);
  }

  get records(): number {
    return this.#ranks.records;
  }

  /** Adds a record and returns its index. */
  insert(): number {
    this.#ranks.resize(this.#ranks.records + 1);
    return this.#ranks.records - 1;
  }

  next(): number {
    return this.#ranks.records - 1 - this.#ranks.next();
  }

  share(age: number): number {
    return this.#ranks.share(age);
  }
}

const SUMMED_TERMS = 10_000;

/**
 * The generalized harmonic number, sum of 1 / i^theta for i = 1 .. n. The tail comes from the
 * Euler-Maclaurin formula, whose error here is far below that of a sum of doubles.
 */
export function zeta(n: number, theta: number): number {
  const summed = Math.min(n, SUMMED_TERMS);
  let sum = 0;
  for (let i = summed; i >= 1; i--) sum += i ** -theta;
  if (n === summed) return sum;
  const integral = (n ** (1 - theta) - summed ** (1 - theta)) / (1 - theta);
  const ends = (n ** -theta - summed ** -theta) / 2;
  const slopes = (theta * (summed ** (-theta - 1) - n ** (-theta - 1))) / 12;
  return sum + integral + ends + slopes;
}

function requireRecords(records: number): number {
  if (!Number.isInteger(records) || records < 1) {
    throw new RangeError(`a distribution needs at least one record, got ${records}`);
  }
  return records;
}
