import type { RaceIndex } from '../../src/indexes/race/race.ts';
import { Batch, type Operation, Scratch } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import { Prng } from '../workloads/index.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { raceKind } from './index-kind.ts';
import { mustHaveWorked, operationOn } from './operations.ts';

/** RACE 5.2.6: the global depth grows from 2 to 5. */
const FIRST_DEPTH = 2;
const LAST_DEPTH = 5;
/**
 * The paper does not give the size of its subtables. This is the size in SepHash's port of RACE.
 */
const PORT_GROUPS = 64;
/** The second size shows the influence of the size; the paper has no figure for it. */
const GROUPS = [PORT_GROUPS, 8] as const;
const SLOTS_PER_GROUP = 21;

/** RACE Figure 18: "about two orders". */
const RATIO = 100;
/** How often a stalled search checks whether it may run: far less than it waits. */
const POLL_MICROSECONDS = 1;

/** One client inserts until the directory has doubled three times while another searches. */
export const resizing: Experiment = {
  name: 'resizing',
  run(settings) {
    const notes = ['During resizing: searches that begin while a subtable is being split.'];
    const rows = GROUPS.flatMap((groups) => {
      const concurrent = runBoth(settings, groups, true);
      const stalled = runBoth(settings, groups, false);
      const perSplit = concurrent.resizingNs / concurrent.splits / 1e6;
      const slots = `${SLOTS_PER_GROUP * groups} slots`;
      notes.push(`${slots}: ${concurrent.splits} splits, ${perSplit.toFixed(2)} ms each.`);
      const published = groups === PORT_GROUPS ? RATIO : undefined;
      return rowsOf(slots, concurrent, stalled, published);
    });
    return { title: 'Searching while resizing (Figure 18)', rows, notes };
  },
};

function rowsOf(slots: string, concurrent: Searches, stalled: Searches, published?: number): Row[] {
  const row = (what: string, latencies: Histogram): Row => ({
    what: `subtable of ${slots}: ${what}`,
    ours: latencies.mean / 1000,
    unit: 'us',
    detail: `${latencies.count} searches, the longest ${micros(latencies)}`,
  });
  return [
    row('search while nothing is resized', concurrent.quiet),
    row('search during resizing, concurrent', concurrent.during),
    row('search during resizing, waiting for its end', stalled.during),
    {
      what: `subtable of ${slots}: waiting to concurrent`,
      ours: stalled.during.mean / concurrent.during.mean,
      unit: 'x',
      published,
    },
  ];
}

function micros({ maximum }: Histogram): string {
  return `${(maximum / 1000).toFixed(1)} us`;
}

interface Resizing {
  active: boolean;
  since: number;
  ns: number;
}

interface Searches {
  quiet: Histogram;
  during: Histogram;
  splits: number;
  resizingNs: number;
}

function runBoth({ model, seed }: Settings, groups: number, concurrent: boolean): Searches {
  const shape = { associativity: 7, groups, initialDepth: FIRST_DEPTH, maxDepth: 8, seed: 1 };
  const kind = raceKind(shape);
  // Half of the slots.
  const loaded = (SLOTS_PER_GROUP * groups * 2 ** FIRST_DEPTH) / 2;
  const cluster = new SimulatedCluster({ model, seed, kind, clients: 2, computeNodes: 2 });
  cluster.load(loaded);
  const { network } = cluster;
  const inserter = cluster.addClient(0);
  const searcher = cluster.addClient(1);
  const state: Resizing = { active: false, since: 0, ns: 0 };
  const prng = Prng.fromSeed(seed);
  const quiet = new Histogram();
  const during = new Histogram();
  let record = loaded;
  let finished = false;
  let duringThis = false;
  inserter.begin({
    next(request) {
      finished = inserter.index.table.directory.depth >= LAST_DEPTH;
      if (finished) return undefined;
      const insertion = operationOn('insert', cluster, inserter, request, record++);
      return watched(insertion, inserter.index, state, () => network.now);
    },
    ended: (result) => mustHaveWorked('insert', result),
  });
  searcher.begin({
    next(request) {
      if (finished) return undefined;
      duringThis = state.active;
      const search = operationOn('search', cluster, searcher, request, prng.below(loaded));
      return concurrent ? search : waiting(search, state);
    },
    ended(result, latencyNs) {
      mustHaveWorked('search', result);
      (duringThis ? during : quiet).record(latencyNs);
    },
  });
  network.run();
  return { quiet, during, splits: inserter.index.table.splits, resizingNs: state.ns };
}

/** Measures how long an insertion that found no vacant slot spends on splitting the subtable. */
function* watched(
  insertion: Operation<unknown>,
  { table }: RaceIndex,
  state: Resizing,
  now: () => number,
): Operation<unknown> {
  const full = table.retries.subtableFull;
  for (let step = insertion.next(); ; step = insertion.next()) {
    if (!state.active && table.retries.subtableFull > full) {
      state.active = true;
      state.since = now();
    }
    if (step.done) {
      if (state.active) state.ns += now() - state.since;
      state.active = false;
      return step.value;
    }
    yield step.value;
  }
}

/** RACE without concurrent access: a search stalls until the resizing is over. */
function* waiting(search: Operation<unknown>, state: Resizing): Operation<unknown> {
  const batch = new Batch();
  const scratch = new Scratch(8);
  while (state.active) yield batch.clear().pause(POLL_MICROSECONDS, scratch);
  return yield* search;
}
