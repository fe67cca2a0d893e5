import type { Index } from '../../src/indexes/contract.ts';
import { isOrdered } from '../../src/indexes/contract.ts';
import { Prng } from '../../src/random/prng.ts';
import { distribution } from '../workloads/index.ts';
import { deployedCluster, RECORDS, runOperations, type System } from './deployed-cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { DEPLOYMENTS } from './hstore-deployment.ts';
import { YCSB, YcsbWork, type YcsbWorkload } from './ycsb-work.ts';

/** HStore section 5.4. */
const CLIENTS = 16;
const HSTORE = { buckets: 8192, rows: 64 };

const WARM_UP: YcsbWorkload = { name: 'warm-up', other: 50, steps: ['read', 'update'] };
/** Warm-up operations for each client and pair. */
const WARM_UPS = 8;

/** HStore, and substitutes for the systems that the paper compares it with. */
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
    const rows: Row[] = YCSB.flatMap((workload) =>
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

/** Operations per second of virtual time; undefined if the workload scans and the index cannot. */
function measure(settings: Settings, system: System, workload: YcsbWorkload): number | undefined {
  const deployed = deployedCluster<Index>(settings, system, CLIENTS);
  const { cluster, clients, servers } = deployed;
  if (workload.name === 'E' && !isOrdered(clients[0].index)) return undefined;
  const prng = Prng.fromSeed(settings.seed).fork(1);
  const chosen = distribution(workload.latest ? 'latest' : 'zipf', RECORDS, prng.fork(2));
  const common = { cluster, chosen, records: RECORDS };
  const work = new YcsbWork({ ...common, workload, prng });
  const run = (each: YcsbWork<Index>, operations: number) => {
    const next = each.next.bind(each);
    const ns = runOperations(deployed, operations, next, (isOver) => servers?.begin(isOver));
    return (operations * 1e9) / ns;
  };
  // Warm-up: with its first requests, each client claims its rows of the mailboxes.
  run(
    new YcsbWork({ ...common, workload: WARM_UP, prng: prng.fork(3) }),
    WARM_UPS * CLIENTS * (system.deployment?.pairs ?? 1),
  );
  return run(work, workload.name === 'E' ? settings.operations / 10 : settings.operations);
}
