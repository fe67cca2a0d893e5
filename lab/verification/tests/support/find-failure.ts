import type { Canary } from '../../canary.ts';
import { POLICIES, type PolicyName } from '../../schedules/policies.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../../schedules/simulation.ts';

const SEEDS = 2000;

/**
 * Where the search for a canary begins, which few seeds show: there it was caught before. When
 * schedules change, the search goes on from there for as long as any other.
 */
const CAUGHT_AT: Readonly<Record<string, number>> = {
  'a search whose miss needs no certainty': 52,
  'an announcement that is not verified after it was made': 142,
  'a WRITE that relies on being ordered behind the READs of its doorbell': 503,
  'a client that was declared dead and does not look whether it was': 405,
  'a split under a lock that a dead client keeps': 370,
  'a SepHash insertion that goes on to the next entry': 35,
  'a SHARD search that is served by a READ posted before it had queued': 606,
  'a SHARD bucket is filled in its place by every mover that meets it, however late': 818,
  'CHIME: a search that is served by a READ posted before it had queued': 2181,
  'HStore: a client that was overtaken publishes the table that it has doubled': 307,
  'HStore: the replies of a server that died are lost, and a retry is applied twice': 102,
  'HStore: a step of a scan is of as many moments as it has keys': 156,
  'HStore: the row of a request that was given up is used again at once': 730,
  'HStore: a scan does not see what a GET has seen before': 132,
  'HStore: a scan sees what a GET does not see yet': 453,
  'hopscotch: both sequences of a search are read before its entries': 1880,
  'hopscotch: both sequences of a search are read after its entries': 1275,
  'hopscotch: no intent is written': 474,
  'hopscotch: the intent is written behind the leaf': 466,
  'hopscotch: the sibling of a split is born unlocked': 18,
  'hopscotch: owner and vacancy are released by one WRITE': 508,
  'HStore: a lost table is built from a skiplist without the tail of the log': 32,
  'published insert: live at once, duplicates removed afterwards': 16,
  'an update that expects whatever the slot holds': 17,
  'a walk that passes over the last group of each subtable': 13,
  'SHARD overflow bits are cleared by who has not told so before it looked below': 39,
  'published Ordered-CAS: emptied slots are taken again at the same version': 20,
  'a SHARD write is merged into one whose CAS was posted before it had queued': 28,
  'a SHARD migration gives the old place back, and others still go by its addresses': 48,
  'CHIME: the sibling of a split is born unlocked': 45,
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
