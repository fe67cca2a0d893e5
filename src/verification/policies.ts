import type { Prng } from '../random/prng.ts';

/** Chooses who goes on. `candidates` are positions of clients that can. */
export interface Policy {
  pick(candidates: readonly number[], step: number): number;
  /** The client waits for others: it let time pass. */
  paused(client: number): void;
}

export const POLICIES = ['uniform', 'priorities', 'stall'] as const;
export type PolicyName = (typeof POLICIES)[number];

export function policyOf(name: PolicyName, prng: Prng): Policy {
  if (name === 'priorities') return new Priorities(prng);
  if (name === 'stall') return new Stall(prng);
  return new Uniform(prng);
}

const STICKINESS = [0, 50, 80, 95];

/** Any client at any step; in some runs the last one goes on more likely than not. */
class Uniform implements Policy {
  readonly #prng: Prng;
  readonly #sticky: number;
  #last = -1;

  constructor(prng: Prng) {
    this.#prng = prng;
    this.#sticky = STICKINESS[prng.below(STICKINESS.length)];
  }

  pick(candidates: readonly number[]): number {
    if (candidates.includes(this.#last) && this.#prng.below(100) < this.#sticky) return this.#last;
    this.#last = candidates[this.#prng.below(candidates.length)];
    return this.#last;
  }

  paused(): void {
    this.#last = -1;
  }
}

const CHANGES_MAX = 6;
const HORIZON = 3000;

/**
 * Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the runnable client with the
 * highest priority goes on; at a few random steps it is put last. Finds bugs of small depth that a
 * uniform choice hides in noise.
 */
class Priorities implements Policy {
  readonly #prng: Prng;
  readonly #changes = new Set<number>();
  readonly #priority = new Map<number, number>();
  #lowest = 0;

  constructor(prng: Prng) {
    this.#prng = prng;
    const horizon = 1 + prng.below(HORIZON);
    for (let i = prng.below(CHANGES_MAX); i >= 0; i--) this.#changes.add(prng.below(horizon));
  }

  pick(candidates: readonly number[], step: number): number {
    let best = candidates[0];
    for (const client of candidates) if (this.#rank(client) > this.#rank(best)) best = client;
    if (this.#changes.has(step)) this.paused(best);
    return best;
  }

  #rank(client: number): number {
    let rank = this.#priority.get(client);
    if (rank === undefined) {
      rank = 1 + this.#prng.nextDouble();
      this.#priority.set(client, rank);
    }
    return rank;
  }

  paused(client: number): void {
    this.#priority.set(client, --this.#lowest);
  }
}

/** Uniform, but one client stands still for long, wherever it is; then another one. */
class Stall implements Policy {
  readonly #uniform: Uniform;
  readonly #prng: Prng;
  #victim = -1;
  #from = 0;
  #until = 0;

  constructor(prng: Prng) {
    this.#prng = prng;
    this.#uniform = new Uniform(prng);
  }

  pick(candidates: readonly number[], step: number): number {
    if (step >= this.#until) {
      this.#victim = candidates[this.#prng.below(candidates.length)];
      this.#from = step + this.#prng.below(200);
      this.#until = this.#from + 100 + this.#prng.below(2500);
    }
    if (step < this.#from || candidates.length === 1) return this.#uniform.pick(candidates);
    return this.#uniform.pick(candidates.filter((client) => client !== this.#victim));
  }

  paused(): void {
    this.#uniform.paused();
  }
}
