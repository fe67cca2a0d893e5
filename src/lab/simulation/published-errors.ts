import { ALWAYS } from '../../indexes/contract.ts';
import type { RaceIndex } from '../../indexes/race/race.ts';
import type { RaceRequest } from '../../indexes/race/table.ts';
import { Prng } from '../../random/prng.ts';
import type { Operation } from '../../verbs/index.ts';
import { PublishedInsert } from '../../verification/canaries/published-insert.ts';
import { PublishedResize } from '../../verification/canaries/published-resize.ts';
import { distribution } from '../../workloads/index.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { type IndexKind, raceKind } from './index-kind.ts';
import type { PoolClient } from './pool-client.ts';

/** SHARD, Figure 6: 16 threads, Zipf 0.99, write-only; segment sizes are not in its text. */
const THREADS = 16;
const GROUPS = [8, 16, 32, 64, 128] as const;
const SLOTS_PER_GROUP = 21;
const INITIAL_DEPTH = 2;
const READ_SHARES = [0, 50] as const;
/** The fewest keys a run inserts, so that rates of a percent can be told. */
const KEYS_MIN = 50_000;

/**
 * How often RACE as printed goes wrong (SHARD, Figure 6). The doubles are those of the checkers'
 * canaries; the product has neither error.
 */
export const publishedErrors: Experiment = {
  name: 'errors',
  run(settings) {
    const rows: Row[] = [];
    for (const share of READ_SHARES) rows.push(...duplicates(settings, share));
    for (const groups of GROUPS) rows.push(missing(settings, groups));
    return {
      title: 'Errors of RACE as printed (SHARD, Figure 6)',
      rows,
      notes: [
        `${THREADS} threads of one coroutine each, one memory node, an empty table that grows`,
        'duplicates: Zipf 0.99 puts; of the insertions, those that saw a second slot of their key',
        'missing: uniform inserts; of the items to be moved, those for which no slot was found',
        'the paper has 2.1-5.4 % missing across segment sizes, and duplicates only in a plot',
      ],
    };
  },
};

/** A search that counts whether it saw more than one copy of its key. */
class WatchedInsert extends PublishedInsert {
  readonly seen = { found: 0, twice: 0 };

  override *search(request: RaceRequest): Operation<boolean> {
    const found = yield* super.search(request);
    if (!found) return false;
    let copies = 0;
    const { candidateCount, candidateAt } = request;
    for (let i = 0; i < candidateCount; i++) if (request.matches(candidateAt[i])) copies++;
    this.seen.found++;
    if (copies > 1) this.seen.twice++;
    return true;
  }
}

function duplicates({ model, seed, operations }: Settings, readShare: number): Row[] {
  const count = Math.max(KEYS_MIN, operations);
  const opened: WatchedInsert[] = [];
  const kind = watched(64, ({ table }) => new WatchedInsert(table), opened);
  const prng = Prng.fromSeed(seed);
  const zipf = distribution('zipf', count, prng.fork(1));
  let left = 2 * count;
  work(clusterOf(kind, model, seed), (cluster, client, request) => {
    if (left-- <= 0) return undefined;
    const key = cluster.keys.bytes(zipf.next());
    if (prng.below(100) < readShare) {
      request.setKey(key, client.index.hashSeed);
      return client.index.search(request as RaceRequest);
    }
    client.records.encode(request, key, cluster.values.buffer(1), client.index.hashSeed, 0);
    return client.index.write(request as RaceRequest, ALWAYS);
  });
  const inserted = sum(opened, ({ tally }) => tally.inserted);
  const twice = sum(opened, ({ tally }) => tally.duplicates);
  const found = sum(opened, ({ seen }) => seen.found);
  const seenTwice = sum(opened, ({ seen }) => seen.twice);
  const rows: Row[] = [
    {
      what: `duplicate inserts, ${readShare} % reads`,
      ours: (100 * twice) / inserted,
      unit: '%',
      detail: `${twice} of ${inserted}`,
    },
  ];
  if (readShare === 0) return rows;
  const detail = `${seenTwice} of ${found}`;
  rows.push({
    what: 'reads that saw two copies',
    ours: (100 * seenTwice) / found,
    unit: '%',
    detail,
  });
  return rows;
}

function missing({ model, seed, operations }: Settings, groups: number): Row {
  const count = Math.max(KEYS_MIN, operations);
  const opened: PublishedResize[] = [];
  const kind = watched(groups, ({ table }) => new PublishedResize(table), opened);
  let next = 0;
  work(clusterOf(kind, model, seed), (cluster, client, request) => {
    if (next === count) return undefined;
    const key = cluster.keys.bytes(next++);
    client.records.encode(request, key, cluster.values.buffer(1), client.index.hashSeed, 0);
    return client.index.write(request as RaceRequest, ALWAYS);
  });
  const moved = sum(opened, ({ tally }) => tally.moved);
  const left = sum(opened, ({ tally }) => tally.left);
  return {
    what: `missing items, ${SLOTS_PER_GROUP * groups} slots a subtable`,
    ours: (100 * left) / (moved + left),
    unit: '%',
    detail: `${left} of ${moved + left}`,
  };
}

function watched<I extends RaceIndex>(
  groups: number,
  double: (index: RaceIndex) => I,
  opened: I[],
): IndexKind<RaceIndex> {
  const kind = raceKind({
    associativity: 7,
    groups,
    initialDepth: INITIAL_DEPTH,
    maxDepth: 16,
    seed: 1,
  });
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
  request: Parameters<RaceIndex['search']>[0],
) => Operation<unknown> | undefined;

function work(cluster: SimulatedCluster<RaceIndex>, next: Next): void {
  for (let i = 0; i < THREADS; i++) {
    const client = cluster.addClient();
    client.begin({ next: (request) => next(cluster, client, request as RaceRequest) });
  }
  cluster.network.run();
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
