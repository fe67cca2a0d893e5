import { invariant } from '../../src/errors.ts';
import type { HStoreIndex } from '../../src/indexes/hstore/hstore.ts';
import { BUCKET_BYTES } from '../../src/indexes/hstore/protocol/slot.ts';
import { Prng } from '../../src/random/prng.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import type { SimulatedCluster } from './cluster.ts';
import { deployedCluster, RECORDS, runOperations } from './deployed-cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { DEPLOYMENTS, type Deployment } from './hstore-deployment.ts';
import type { PoolClient } from './pool-client.ts';

/** The fewest and the most clients of HStore's Figures 11b and 11c. */
const CLIENTS = [4, 32] as const;
const WARM_UP = 8;

type Client = PoolClient<HStoreIndex>;

/** Mean nanoseconds of a GET. */
interface Gets {
  normal: number;
  withoutSkiplist: number;
  byMailbox: number;
}

/**
 * GETs while a server is lost. In the paper the table is lost with the hash server's process. Here
 * the experiment overwrites the table, and the skiplist server answers GETs without rebuilding it.
 * So these GETs do not compete with a rebuild.
 */
export const hstoreDegraded: Experiment = {
  name: 'hstore-degraded',
  run(settings) {
    const deployments = DEPLOYMENTS.filter(({ name }) => name === 'network' || name === 'beside');
    const rows = deployments.flatMap((deployment) =>
      CLIENTS.flatMap((clients) => rowsOf(settings, deployment, clients)),
    );
    const notes = [
      'The paper: without the skiplist server nothing changes; without the hash server a GET' +
        ' takes 7.9 to 85 % longer.',
    ];
    return { title: 'HStore: GETs while a server is lost (Figures 11b and 11c)', rows, notes };
  },
};

function rowsOf(settings: Settings, deployment: Deployment, clients: number): Row[] {
  const { normal, withoutSkiplist, byMailbox } = measure(settings, deployment, clients);
  const name = `${deployment.name}, ${clients} clients`;
  const detail = (ns: number) => `${(ns / 1000).toFixed(2)} us`;
  return [
    { what: `${name}: GET`, ours: normal / 1000, unit: 'us' },
    {
      what: `${name}: without the skiplist server, to that`,
      unit: 'x',
      published: 1,
      ours: withoutSkiplist / normal,
      detail: detail(withoutSkiplist),
    },
    {
      what: `${name}: while the table is lost, to that`,
      unit: 'x',
      ours: byMailbox / normal,
      detail: detail(byMailbox),
    },
  ];
}

function measure(settings: Settings, deployment: Deployment, count: number): Gets {
  const wishes = { buckets: 8192, rows: 64, pairs: 1 };
  const system = { name: deployment.name, index: 'hstore', wishes, deployment };
  const deployed = deployedCluster<HStoreIndex>(settings, system, count);
  const { cluster, clients, servers } = deployed;
  invariant(servers !== undefined, 'HStore has servers');
  const prng = Prng.fromSeed(settings.seed).fork(1);
  const gets = (operations: number, serve: (isOver: () => boolean) => void) => {
    const latencies = new Histogram();
    const next = (client: Client) => getOf(cluster, client, prng.below(RECORDS));
    runOperations(deployed, operations, next, serve, (ns) => latencies.record(ns));
    return latencies.mean;
  };
  const { operations } = settings;
  const both = (isOver: () => boolean) => servers.begin(isOver);
  gets(WARM_UP * count, both);
  const normal = gets(operations, both);
  const withoutSkiplist = gets(operations, (isOver) => servers.begin(isOver, undefined, ['hash']));
  loseTable(clients[0]);
  // Warm-up: each client claims its row of the mailbox, and notices that the table is lost.
  const answer = (isOver: () => boolean) => servers.answerScans(isOver);
  gets(WARM_UP * count, answer);
  return { normal, withoutSkiplist, byMailbox: gets(operations, answer) };
}

/** Simulates a memory node that restarts with empty memory. */
function loseTable({ pool, index }: Client): void {
  const { geometry } = index.table.pairs[0];
  for (let bucket = 0; bucket < geometry.buckets; bucket++) {
    pool.fabric.window(geometry.bucket(bucket), BUCKET_BYTES).fill(0);
  }
}

function* getOf(
  { keys }: SimulatedCluster<HStoreIndex>,
  { index }: Client,
  record: number,
): Operation<void> {
  const request = index.newRequest();
  request.setKey(keys.bytes(record), index.records.seed);
  if (!(yield* index.search(request))) throw new Error('a GET did not find its key');
}
