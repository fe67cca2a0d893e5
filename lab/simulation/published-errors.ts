import { ALWAYS, INSERTED, type Outcome, REFUSED } from '../../src/indexes/contract.ts';
import { CERTAIN, certainty, postBuckets } from '../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../src/indexes/race/geometry.ts';
import { catchUp } from '../../src/indexes/race/migrate.ts';
import type { RaceIndex } from '../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../src/indexes/race/request.ts';
import { Prng } from '../../src/random/prng.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { PublishedInsert, publishedInsert } from '../verification/canaries/published-insert.ts';
import { PublishedResize } from '../verification/canaries/published-resize.ts';
import { distribution } from '../workloads/index.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { type IndexKind, raceKind } from './index-kind.ts';
import type { PoolClient } from './pool-client.ts';

/** SHARD, Figure 6: 16 threads, Zipf 0.99. It gives neither segment sizes nor coroutines. */
const THREADS = 16;
const COROUTINES = [1, 4] as const;
const GROUPS = [8, 16, 32, 64, 128] as const;
const PORT_GROUPS = 64;
const SLOTS_PER_GROUP = 21;
/** How many subtables the keys fill. Later splits are rarer and meet fewer insertions each. */
const SUBTABLES_FILLED = 8;
const READ_SHARE = 50;
/** The fewest keys of a run, so that rates of a percent are visible. */
const KEYS_MIN = 50_000;

/**
 * How often RACE as printed goes wrong (SHARD, Figure 6). It uses the test doubles of the
 * verification's canaries; the product has neither error.
 */
export const publishedErrors: Experiment = {
  name: 'errors',
  run(settings) {
    const rows = [
      ...duplicates(settings, 'puts that look first', (index) => new WatchedInsert(index.table)),
      ...duplicates(settings, 'inserts as printed', (index) => new BlindInsert(index.table)),
    ];
    for (const coroutines of COROUTINES) {
      for (const groups of GROUPS) rows.push(missing(settings, groups, coroutines));
    }
    return {
      title: 'Errors of RACE as printed (SHARD, Figure 6)',
      rows,
      notes: [
        `${THREADS} threads, one memory node, a table that begins with one subtable`,
        `duplicates: Zipf 0.99, ${READ_SHARE} % reads; an insert as printed looks for its key last`,
        `missing: of the items to be moved, while keys for ${SUBTABLES_FILLED} subtables come in`,
        'the paper has 2.1-5.4 % missing across segment sizes, and duplicates only in a plot',
      ],
    };
  },
};

/** Counts the searches that see more than one copy of their key. */
class WatchedInsert extends PublishedInsert {
  readonly seen = { found: 0, twice: 0 };

  override *search(request: RaceRequest): Operation<boolean> {
    const found = yield* super.search(request);
    if (!found) return false;
    let copies = 0;
    const { count: candidateCount, at: candidateAt } = request.candidates;
    for (let i = 0; i < candidateCount; i++) if (request.matches(candidateAt[i])) copies++;
    this.seen.found++;
    if (copies > 1) this.seen.twice++;
    return true;
  }
}

/** Algorithm 1 to the letter: it looks for an existing copy of the key only after the CAS. */
class BlindInsert extends WatchedInsert {
  override *write(request: RaceRequest): Operation<Outcome> {
    const { table, tally } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    for (let attempt = 1; ; attempt++) {
      if (request.record.block === 0) yield* table.records.allocate(request);
      postBuckets(table, request, request.batch.clear());
      table.records.post(request, request.batch);
      yield request.batch;
      if (certainty(table, request) !== CERTAIN) yield* catchUp(table, request, attempt);
      else if (yield* publishedInsert(table, request, attempt, tally)) return INSERTED;
      else if (request.record.block === 0) return REFUSED;
    }
  }
}

function duplicates(
  { model, seed, operations }: Settings,
  what: string,
  double: (index: RaceIndex) => WatchedInsert,
): Row[] {
  const count = Math.max(KEYS_MIN, operations);
  const opened: WatchedInsert[] = [];
  const prng = Prng.fromSeed(seed);
  const zipf = distribution('zipf', count, prng.fork(1));
  let left = 2 * count;
  work(
    clusterOf(watched(PORT_GROUPS, double, opened), model, seed),
    1,
    (cluster, client, request) => {
      if (left-- <= 0) return undefined;
      const key = cluster.keys.bytes(zipf.next());
      if (prng.below(100) < READ_SHARE) {
        request.setKey(key, client.index.records.seed);
        return client.index.search(request);
      }
      client.records.encode(request, key, cluster.values.buffer(1), 0);
      return client.index.write(request, ALWAYS);
    },
  );
  const inserted = sum(opened, ({ tally }) => tally.inserted);
  const twice = sum(opened, ({ tally }) => tally.duplicates);
  const found = sum(opened, ({ seen }) => seen.found);
  const seenTwice = sum(opened, ({ seen }) => seen.twice);
  return [
    share(`${what}: slots that were a second one`, twice, inserted),
    share(`${what}: reads that saw two copies`, seenTwice, found),
  ];
}

function share(what: string, part: number, whole: number): Row {
  return { what, ours: (100 * part) / whole, unit: '%', detail: `${part} of ${whole}` };
}

function missing({ model, seed }: Settings, groups: number, coroutines: number): Row {
  const slots = SLOTS_PER_GROUP * groups;
  const count = SUBTABLES_FILLED * slots;
  const opened: PublishedResize[] = [];
  const kind = watched(groups, ({ table }) => new PublishedResize(table), opened);
  let next = 0;
  work(clusterOf(kind, model, seed), coroutines, (cluster, client, request) => {
    if (next === count) return undefined;
    const key = cluster.keys.bytes(next++);
    client.records.encode(request, key, cluster.values.buffer(1), 0);
    return client.index.write(request, ALWAYS);
  });
  const moved = sum(opened, ({ tally }) => tally.moved);
  const left = sum(opened, ({ tally }) => tally.left);
  return share(`missing: ${slots} slots a subtable, ${coroutines} coroutines`, left, moved + left);
}

function watched<I extends RaceIndex>(
  groups: number,
  double: (index: RaceIndex) => I,
  opened: I[],
): IndexKind<RaceIndex> {
  const kind = raceKind({ associativity: 7, groups, initialDepth: 0, maxDepth: 16, seed: 1 });
  return {
    create: (pool) => kind.create(pool),
    *open(pool, entry) {
      const index = double(yield* kind.open(pool, entry));
      opened.push(index);
      return index;
    },
  };
}

function clusterOf(kind: IndexKind<RaceIndex>, model: Settings['model'], seed: number) {
  return new SimulatedCluster<RaceIndex>({ model, seed, kind, clients: THREADS });
}

type Next = (
  cluster: SimulatedCluster<RaceIndex>,
  client: PoolClient<RaceIndex>,
  request: RaceRequest,
) => Operation<unknown> | undefined;

function work(cluster: SimulatedCluster<RaceIndex>, coroutines: number, next: Next): void {
  for (let i = 0; i < THREADS; i++) {
    const client = cluster.addClient(0, coroutines);
    client.begin({ next: (request) => next(cluster, client, request as RaceRequest) });
  }
  cluster.network.run();
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
