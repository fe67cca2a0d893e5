import type { Prng } from '../../../src/random/prng.ts';

/** Chooses the actor of the next step among `candidates`: the lanes that can continue. */
export interface Policy {
  pick(candidates: readonly number[], step: number): number;
  /** The actor is waiting for others: its step let time pass. */
  paused(actor: number): void;
}

export const POLICIES = ['uniform', 'priorities', 'stall'] as const;
export type PolicyName = (typeof POLICIES)[number];

/** `steps`: about how many steps the run will have. */
export function policyOf(name: PolicyName, prng: Prng, steps: number): Policy {
  if (name === 'priorities') return new Priorities(prng, steps);
  if (name === 'stall') return new Stall(prng);
  return new Uniform(prng);
}

const STICKINESS = [0, 50, 80, 95];

/** Any actor at any step; in some runs mostly the same actor as before. */
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

const DEPTH_MAX = 7;

/**
 * Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010), for bugs of depth d: those
 * that d ordering constraints suffice for. Actors have random priorities of d and above; the
 * runnable one with the highest goes on. The policy draws d - 1 of the run's k steps as change
 * points: the actor that takes step k_i has priority i from then on. The change points are in no
 * order, so an actor demoted later may still come before one demoted earlier.
 *
 * d is drawn for each run. An actor that waits goes behind all others, which the paper does for
 * threads that yield: otherwise it would wait for ever for one of lower priority.
 */
class Priorities implements Policy {
  readonly #prng: Prng;
  /** By step: the priority that it leaves its actor with. */
  readonly #changes = new Map<number, number>();
  readonly #priority = new Map<number, number>();
  #lowest = 0;

  constructor(prng: Prng, steps: number) {
    this.#prng = prng;
    const depth = 1 + prng.below(DEPTH_MAX);
    for (let i = 1; i < depth; i++) this.#changes.set(prng.below(steps), i);
  }

  pick(candidates: readonly number[], step: number): number {
    let best = candidates[0];
    for (const actor of candidates) if (this.#rank(actor) > this.#rank(best)) best = actor;
    const change = this.#changes.get(step);
    if (change !== undefined) this.#priority.set(best, change);
    return best;
  }

  #rank(actor: number): number {
    let rank = this.#priority.get(actor);
    if (rank === undefined) {
      rank = DEPTH_MAX + this.#prng.nextDouble();
      this.#priority.set(actor, rank);
    }
    return rank;
  }

  paused(actor: number): void {
    this.#priority.set(actor, --this.#lowest);
  }
}

/** Uniform, but one actor after another is suspended for a long time, wherever it is. */
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
    return this.#uniform.pick(candidates.filter((actor) => actor !== this.#victim));
  }

  paused(): void {
    this.#uniform.paused();
  }
}
