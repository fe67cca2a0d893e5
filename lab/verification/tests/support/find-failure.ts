import type { Canary } from '../../canary.ts';
import { POLICIES, type PolicyName } from '../../schedules/policies.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../../schedules/simulation.ts';

const SEEDS = 2000;

/**
 * Where the search for a canary begins, which few seeds show: there it was caught before. When
 * schedules change, the search goes on from there for as long as any other.
 */
const CAUGHT_AT: Readonly<Record<string, number>> = {
  'a search whose miss needs no certainty': 26,
  'an announcement that is not verified after it was made': 54,
  'a WRITE that relies on being ordered behind the READs of its doorbell': 167,
  'a client that was declared dead and does not look whether it was': 126,
  'a split under a lock that a dead client keeps': 144,
  'a SepHash insertion that goes on to the next entry': 28,
  'a SHARD search that is served by a READ posted before it had queued': 191,
  'a SHARD bucket is filled in its place by every mover that meets it, however late': 46,
  'CHIME: a search that is served by a READ posted before it had queued': 394,
  'HStore: the replies of a server that died are lost, and a retry is applied twice': 24,
  'HStore: a step of a scan is of as many moments as it has keys': 132,
  'HStore: the row of a request that was given up is used again at once': 127,
  'HStore: a scan does not see what a GET has seen before': 110,
  'HStore: a scan sees what a GET does not see yet': 86,
};

/** A run in which the checker that must catch the canary does. */
export function findFailure(
  canary: Canary,
  fixed: Partial<RunOptions> = {},
  policies: readonly PolicyName[] = POLICIES,
): RunOptions | undefined {
  const memory = newSimulationMemory();
  const first = CAUGHT_AT[canary.name] ?? 1;
  for (let seed = first; seed < first + SEEDS; seed++) {
    for (const policy of policies) {
      const options = { ...fixed, seed, policy, canary };
      if (runSchedule(options, memory).failure?.kind === canary.caughtBy) return options;
    }
  }
  return undefined;
}
