import { type Prng, ScrambledZipf } from '../workloads/index.ts';

/**
 * YCSB's core workloads as shares of reads, updates, insertions, scans and read-modify-writes, and
 * two mixes of scans alone: of records, as in E, and of keys without values.
 */
export const MIXES = {
  A: { read: 0.5, update: 0.5 },
  B: { read: 0.95, update: 0.05 },
  C: { read: 1 },
  D: { read: 0.95, insert: 0.05 },
  E: { scan: 0.95, insert: 0.05 },
  F: { read: 0.5, modify: 0.5 },
  scans: { scan: 1 },
  keys: { keys: 1 },
} as const;
export type MixName = keyof typeof MIXES;
type Action = 'read' | 'update' | 'insert' | 'scan' | 'keys' | 'modify';

/** Whether a mix needs an ordered store. */
export function isOfScans(mix: MixName): boolean {
  return 'scan' in MIXES[mix] || 'keys' in MIXES[mix];
}

/** The records that one client inserts: records + c, records + c + clients, … */
export class Insertions {
  readonly #first: number;
  readonly #step: number;
  count = 0;

  constructor(records: number, { client, clients }: { client: number; clients: number }) {
    this.#first = records + client;
    this.#step = clients;
  }

  next(): number {
    return this.at(this.count++);
  }

  at(number: number): number {
    return this.#first + this.#step * number;
  }
}

/** Chooses the next action and its record. */
export class Chooser {
  readonly #shares: readonly (readonly [Action, number])[];
  readonly #latest: boolean;
  readonly #zipf: ScrambledZipf;
  readonly #prng: Prng;
  readonly #records: number;
  readonly #insertions: Insertions;

  constructor(mix: MixName, records: number, insertions: Insertions, prng: Prng) {
    this.#shares = Object.entries(MIXES[mix]) as [Action, number][];
    this.#latest = mix === 'D';
    this.#zipf = new ScrambledZipf(records, prng);
    this.#prng = prng;
    this.#records = records;
    this.#insertions = insertions;
  }

  action(): Action {
    let left = this.#prng.below(1_000_000) / 1_000_000;
    for (const [action, share] of this.#shares) {
      left -= share;
      if (left < 0) return action;
    }
    return this.#shares[0][0];
  }

  /** In mix D, half of the reads go to this client's newest records, if it has enough. */
  record(): number {
    const { count } = this.#insertions;
    const recent = Math.min(count - 64, 1000);
    if (this.#latest && recent > 0 && this.#prng.below(2) === 0) {
      return this.#insertions.at(count - 65 - this.#prng.below(recent));
    }
    return this.#zipf.next() % this.#records;
  }
}
