import { POLICIES, type PolicyName } from './policies.ts';
import { newSimulationMemory, type RunOptions, type RunReport, runSchedule } from './simulation.ts';

const COUNTED = [
  'operations',
  'steps',
  'splits',
  'retries',
  'freed',
  'recycled',
  'crashes',
] as const;

/** Counts of the schedules so far, and the first that failed. */
export interface RandomCoverage extends Record<(typeof COUNTED)[number], number> {
  schedules: number;
  /** The last seed. */
  seed: number;
  failure: { options: RunOptions; report: RunReport } | undefined;
}

export interface RandomSearch {
  first: number;
  last: number;
  policies?: readonly PolicyName[];
  options?: Omit<RunOptions, 'seed' | 'policy'>;
}

/** Runs a schedule of every policy for every seed; yields after each, ends at the first failure. */
export function* searchSeeds(search: RandomSearch): Generator<RandomCoverage, RandomCoverage> {
  const { first, last, policies = POLICIES, options = {} } = search;
  const coverage = nothing(first);
  const memory = newSimulationMemory();
  for (let seed = first; seed <= last; seed++) {
    for (const policy of policies) {
      const run = { ...options, seed, policy };
      const report = runSchedule(run, memory);
      coverage.schedules++;
      coverage.seed = seed;
      for (const name of COUNTED) coverage[name] += report[name];
      if (report.failure) coverage.failure = { options: run, report };
      yield coverage;
      if (report.failure) return coverage;
    }
  }
  return coverage;
}

function nothing(seed: number): RandomCoverage {
  return {
    operations: 0,
    steps: 0,
    splits: 0,
    retries: 0,
    freed: 0,
    recycled: 0,
    crashes: 0,
    schedules: 0,
    seed,
    failure: undefined,
  };
}
