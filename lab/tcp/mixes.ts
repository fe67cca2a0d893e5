import { type Prng, ScrambledZipf } from '../workloads/index.ts';

/**
 * YCSB's core workloads as shares of reads, updates, insertions, scans and read-modify-writes, and
 * a mix of scans alone.
 */
export const MIXES = {
  A: { read: 0.5, update: 0.5 },
  B: { read: 0.95, update: 0.05 },
  C: { read: 1 },
  D: { read: 0.95, insert: 0.05 },
  E: { scan: 0.95, insert: 0.05 },
  F: { read: 0.5, modify: 0.5 },
  scans: { scan: 1 },
} as const;
export type MixName = keyof typeof MIXES;
type Action = 'read' | 'update' | 'insert' | 'scan' | 'modify';

/** Chooses the next action and its record. Each client inserts its own new records. */
export class Chooser {
  readonly #shares: readonly (readonly [Action, number])[];
  readonly #latest: boolean;
  /** Whether the mix has scans. */
  readonly scans: boolean;
  readonly #zipf: ScrambledZipf;
  readonly #prng: Prng;
  readonly #records: number;
  /** Client c inserts records + c, records + c + clients, … */
  readonly #first: number;
  readonly #step: number;
  #inserted = 0;

  constructor(
    mix: MixName,
    records: number,
    place: { client: number; clients: number },
    prng: Prng,
  ) {
    this.#shares = Object.entries(MIXES[mix]) as [Action, number][];
    this.#latest = mix === 'D';
    this.scans = 'scan' in MIXES[mix];
    this.#zipf = new ScrambledZipf(records, prng);
    this.#prng = prng;
    this.#records = records;
    this.#first = records + place.client;
    this.#step = place.clients;
  }

  action(): Action {
    let left = this.#prng.below(1_000_000) / 1_000_000;
    for (const [action, share] of this.#shares) {
      left -= share;
      if (left < 0) return action;
    }
    return this.#shares[0][0];
  }

  insertion(): number {
    return this.#first + this.#step * this.#inserted++;
  }

  /** In mix D, half of the reads go to this client's newest records, if it has enough. */
  record(): number {
    const recent = Math.min(this.#inserted - 64, 1000);
    if (this.#latest && recent > 0 && this.#prng.below(2) === 0) {
      return this.#first + this.#step * (this.#inserted - 65 - this.#prng.below(recent));
    }
    return this.#zipf.next() % this.#records;
  }
}
