import type { Index } from '../../src/indexes/contract.ts';
import { ALWAYS, isOrdered, type OrderedIndex } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import { Prng } from '../../src/random/prng.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { type Distribution, distribution } from '../workloads/index.ts';
import type { SimulatedCluster } from './cluster.ts';
import { deployedCluster, RECORDS, type System } from './deployed-cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { DEPLOYMENTS, type HStoreServers } from './hstore-deployment.ts';
import type { PoolClient } from './pool-client.ts';

/** HStore section 5.4. */
const CLIENTS = 16;
const SCAN_KEYS_MAX = 100;
const HSTORE = { buckets: 8192, rows: 64 };

type Step = 'read' | 'update' | 'insert' | 'scan' | 'readModifyWrite';

interface Workload {
  name: string;
  /** How often, of 100, it is the other step and not the first. */
  other: number;
  steps: readonly [Step, Step];
  latest?: boolean;
}

const WORKLOADS: readonly Workload[] = [
  { name: 'A', other: 50, steps: ['read', 'update'] },
  { name: 'B', other: 5, steps: ['read', 'update'] },
  { name: 'C', other: 0, steps: ['read', 'read'] },
  { name: 'D', other: 5, steps: ['read', 'insert'], latest: true },
  { name: 'E', other: 5, steps: ['scan', 'insert'] },
  { name: 'F', other: 50, steps: ['read', 'readModifyWrite'] },
];

const WARM_UP: Workload = { name: 'warm-up', other: 50, steps: ['read', 'update'] };
/** For each client and pair. */
const WARM_UPS = 8;

/** HStore, and the systems of the paper's comparison, or their substitutes here. */
const SYSTEMS: readonly System[] = [
  ...DEPLOYMENTS.flatMap((deployment) =>
    [0, 1].map((sync): System => {
      const { name, pairs } = deployment;
      const what = sync === 0 ? 'HStore' : 'HStore (sync)';
      const wishes = { ...HSTORE, pairs, sync };
      return { name: `${what}, ${name}`, index: 'hstore', wishes, deployment };
    }),
  ),
  { name: 'CHIME, for Sherman', index: 'chime', wishes: {} },
  { name: 'RACE, for Clover', index: 'race', wishes: {} },
];

/** YCSB on HStore, HStore (sync), an ordered rival and a hash rival (Figure 10). */
export const hstoreYcsb: Experiment = {
  name: 'hstore-ycsb',
  run(settings) {
    const rows: Row[] = WORKLOADS.flatMap((workload) =>
      SYSTEMS.flatMap((system) => {
        const rate = measure(settings, system, workload);
        const what = `${workload.name}: ${system.name}`;
        return rate === undefined ? [] : [{ what, ours: rate / 1e6, unit: 'M/s' }];
      }),
    );
    const notes = [
      `${RECORDS} records of 16 and 32 bytes, ${CLIENTS} clients, Zipf 0.99;` +
        ' the paper: 100 M of 20 and 200.',
      'Sherman and Clover are not here: CHIME is a tree of their kind that reads less, RACE a' +
        ' hash table whose writes are one-sided.',
      'The paper: HStore is 1.37 to 1.55 times Sherman and 1.14 to 1.39 times Clover on A to D' +
        ' and F, a little below Sherman on E.',
    ];
    return { title: 'HStore: YCSB (Figure 10)', rows, notes };
  },
};

/** Operations a second of virtual time; undefined when the index has no scans. */
function measure(settings: Settings, system: System, workload: Workload): number | undefined {
  const { cluster, clients, servers } = deployedCluster<Index>(settings, system, CLIENTS);
  if (workload.name === 'E' && !isOrdered(clients[0].index)) return undefined;
  const prng = Prng.fromSeed(settings.seed).fork(1);
  const chosen = distribution(workload.latest ? 'latest' : 'zipf', RECORDS, prng.fork(2));
  const work = new YcsbWork(cluster, workload, prng, chosen);
  const run = (work: YcsbWork, operations: number) =>
    runWork(operations, work, cluster, clients, servers);
  // Not measured: each client claims its rows of the mailboxes with its first requests.
  run(
    new YcsbWork(cluster, WARM_UP, prng.fork(3), chosen),
    WARM_UPS * CLIENTS * (system.deployment?.pairs ?? 1),
  );
  return run(work, workload.name === 'E' ? settings.operations / 10 : settings.operations);
}

function runWork(
  operations: number,
  work: YcsbWork,
  cluster: SimulatedCluster<Index>,
  clients: readonly PoolClient<Index>[],
  servers: HStoreServers | undefined,
): number {
  const began = cluster.network.now;
  let ended = began;
  let left = operations;
  let working = operations;
  for (const client of clients) {
    client.begin({
      next: (request) => (left-- > 0 ? work.next(client, request) : undefined),
      ended: () => {
        working--;
        ended = cluster.network.now;
      },
    });
  }
  servers?.begin(() => working === 0);
  cluster.network.run();
  return (operations * 1e9) / (ended - began);
}

/** What the clients do, one operation after the other. */
class YcsbWork {
  readonly #cluster: SimulatedCluster<Index>;
  readonly #workload: Workload;
  readonly #prng: Prng;
  readonly #chosen: Distribution;
  #inserted = RECORDS;

  constructor(
    cluster: SimulatedCluster<Index>,
    workload: Workload,
    prng: Prng,
    chosen: Distribution,
  ) {
    this.#cluster = cluster;
    this.#workload = workload;
    this.#prng = prng;
    this.#chosen = chosen;
  }

  next(client: PoolClient<Index>, request: Request): Operation<unknown> {
    const { steps, other } = this.#workload;
    const step = steps[this.#prng.below(100) < other ? 1 : 0];
    const { keys, values } = this.#cluster;
    const { index, records } = client;
    const record = step === 'insert' ? this.#inserted++ : this.#chosen.next();
    const key = keys.bytes(record);
    if (step === 'scan')
      return scanOf(index as OrderedIndex, key.slice(), 1 + this.#prng.below(SCAN_KEYS_MAX));
    if (step === 'read') {
      request.setKey(key, index.hashSeed);
      return index.search(request);
    }
    if (step === 'readModifyWrite')
      return readModifyWrite(client, request, key.slice(), values.buffer(record, 1));
    records.encode(request, key, values.buffer(record, 1), index.hashSeed, 0);
    return index.write(request, ALWAYS);
  }
}

/** A GET and then a PUT (section 5.4). */
function* readModifyWrite(
  { index, records }: PoolClient<Index>,
  request: Request,
  key: Uint8Array,
  value: Uint8Array,
): Operation<unknown> {
  const image = value.slice();
  request.setKey(key, index.hashSeed);
  yield* index.search(request);
  records.encode(request, key, image, index.hashSeed, 0);
  return yield* index.write(request, ALWAYS);
}

function* scanOf(index: OrderedIndex, key: Uint8Array, limit: number): Operation<number> {
  const scan = index.scan({ lower: { key, inclusive: true }, limit });
  let found = 0;
  while (!scan.done) {
    yield* scan.next(() => {
      found++;
    });
  }
  return found;
}
