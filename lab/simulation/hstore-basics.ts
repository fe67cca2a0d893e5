import { ALWAYS, type Index, isOrdered, type OrderedIndex } from '../../src/indexes/contract.ts';
import { HStoreIndex } from '../../src/indexes/hstore/hstore.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import { Prng } from '../../src/random/prng.ts';
import { type Operation, ROUND_TRIPS } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import type { SimulatedCluster } from './cluster.ts';
import {
  type DeployedCluster,
  deployedCluster,
  RECORDS,
  runOperations,
  type System,
} from './deployed-cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { DEPLOYMENTS, type Deployment } from './hstore-deployment.ts';
import { type Phases, phaseOfGet, phaseOfScan, timed } from './hstore-phases.ts';
import { type PutPhases, PutTimes } from './hstore-put-times.ts';
import type { PoolClient } from './pool-client.ts';
import { scanOf } from './ycsb-work.ts';

/** The fewest and the most clients of HStore's Figures 7 and 8. */
const CLIENTS = [4, 32] as const;
/** Keys of a SCAN (section 5.2). */
const SCAN_KEYS = 100;
/** SCANs are slow, so the experiment measures this many times fewer of them. */
const SCANS_SHARE = 20;
/** Operations of each client before the measurement, and at least during it. */
const WARM_UP = 8;
const PER_CLIENT_MIN = 10;
const KINDS = ['PUT', 'GET', 'SCAN'] as const;

type Kind = (typeof KINDS)[number];

interface Measured {
  /** Operations per second of virtual time. */
  rate: number;
  /** Round trips per operation, including the client's housekeeping. */
  trips: number;
  latencies: Histogram;
  phases: Phases;
  put: PutPhases;
}

/** PUT, GET and SCAN by 4 and 32 clients: rivals, and HStore with servers in several places. */
export const hstoreBasics: Experiment = {
  name: 'hstore',
  run(settings) {
    const rows = [
      ...DEPLOYMENTS.flatMap((deployment) => rowsOfHStore(settings, deployment)),
      ...RIVALS.flatMap((rival) =>
        CLIENTS.flatMap((clients) =>
          basicRows(rival.name, clients, measureAll(settings, rival, clients)),
        ),
      ),
    ];
    const notes = [
      `${RECORDS} records of 16 and 32 bytes; the paper has 100 M, 4 RPC and 4 worker threads.`,
      'network: each server is a thread on a compute node. beside: on the machine of the memory' +
        ' node, whose memory its CPU reaches; loopback: all but its atomics.',
    ];
    return { title: 'HStore: basic operations (Figures 7, 8 and 9)', rows, notes };
  },
};

const RIVALS: readonly System[] = [
  { name: 'CHIME, for Sherman', index: 'chime', wishes: {} },
  { name: 'RACE, for Clover', index: 'race', wishes: {} },
];

/** HStore section 5.2: async is up to 22.9 % faster; with how many clients it does not say. */
const PUBLISHED_MOST = 1.229;

function rowsOfHStore(settings: Settings, deployment: Deployment): Row[] {
  const { name, pairs } = deployment;
  return CLIENTS.flatMap((clients) => {
    const [async, sync] = [0, 1].map((sync) => {
      const wishes = { buckets: 8192, rows: 64, pairs, sync };
      return measureAll(settings, { name, index: 'hstore', wishes, deployment }, clients);
    });
    const rows = basicRows(name, clients, async);
    const most = clients === CLIENTS[1];
    const inSync = ((sync.PUT?.latencies.mean ?? 0) / 1000).toFixed(1);
    rows.push({
      what: `${name}: PUT, ${clients} clients: throughput of HStore to HStore (sync)`,
      ours: rateOf(async.PUT) / rateOf(sync.PUT),
      unit: 'x',
      ...(most && { published: PUBLISHED_MOST }),
      detail: `sync ${inSync} us; the paper: 1.04 to 1.23`,
    });
    return most ? [...rows, ...breakdown(name, async)] : rows;
  });
}

function rateOf(measured: Measured | undefined): number {
  return measured?.rate ?? 0;
}

function basicRows(name: string, clients: number, all: Measurements): Row[] {
  return KINDS.flatMap((kind) => {
    const measured = all[kind];
    if (!measured) return [];
    const { rate, trips, latencies } = measured;
    const high = (latencies.quantile(0.99) / 1000).toFixed(1);
    const detail = `${(rate / 1e6).toFixed(3)} M/s, 99 % ${high}, ${trips.toFixed(2)} round trips`;
    const what = `${name}: ${kind}, ${clients} clients, mean`;
    return [{ what, ours: latencies.mean / 1000, unit: 'us', detail }];
  });
}

const PUBLISHED_SHARES: Readonly<Record<string, number>> = {
  // 50 to 66 %
  'PUT: queue wait': 58,
  'PUT: log and table written': 24,
  'GET: index': 50,
  'GET: key-value access': 50,
  'SCAN: index': 4,
  'SCAN: key-value access': 96,
};

/** Figure 9: how a PUT, a GET and a SCAN spend their time, in percent. */
function breakdown(name: string, { PUT, GET, SCAN }: Measurements): Row[] {
  const read = (phases: Phases = {}) => ({
    index: phases.index ?? 0,
    'key-value access': phases.records ?? 0,
  });
  const kinds = { PUT: putShares(PUT?.put), GET: read(GET?.phases), SCAN: read(SCAN?.phases) };
  const shares = Object.entries(kinds).flatMap(([kind, phases]) => {
    const whole = Object.values(phases).reduce((sum, part) => sum + part, 0);
    return Object.entries(phases).map(([phase, part]): Row => {
      const published = PUBLISHED_SHARES[`${kind}: ${phase}`];
      const what = `${name}: ${kind}: ${phase}, share`;
      return { what, ours: (100 * part) / whole, unit: '%', ...(published && { published }) };
    });
  });
  return PUT ? [...shares, waitingForOthers(name, PUT.put)] : shares;
}

/** Our server answers all requests of a round together; the paper's workers, one by one. */
function waitingForOthers(name: string, { forOthers, ...phases }: PutPhases): Row {
  const whole = Object.values(phases).reduce((sum, part) => sum + part, 0);
  const ours = (100 * (phases.queueWait + forOthers)) / whole;
  const what = `${name}: PUT: queue wait, and turns for others' requests, share`;
  return { what, ours, unit: '%', published: PUBLISHED_SHARES['PUT: queue wait'] };
}

function putShares(phases: PutPhases | undefined): Record<string, number> {
  if (!phases) return {};
  return {
    'request, and record written': phases.request,
    'queue wait': phases.queueWait,
    'index operation': phases.indexOperation,
    'turn decided': phases.decision,
    'log and table written': phases.changes,
    'answer fetched': phases.answer,
  };
}

type Measurements = Partial<Record<Kind, Measured>>;

export function measureAll(
  settings: Settings,
  system: System,
  count: number,
  wanted: readonly Kind[] = KINDS,
): Measurements {
  const { deployment } = system;
  const deployed = deployedCluster<Index>(settings, system, count);
  const { index } = deployed.clients[0];
  const kinds = wanted.filter((kind) => kind !== 'SCAN' || isOrdered(index));
  return Object.fromEntries(
    kinds.map((kind) => {
      const share = kind === 'SCAN' ? SCANS_SHARE : 1;
      const operations = Math.max(PER_CLIENT_MIN * count, settings.operations / share);
      const work = (times: number) => measure(settings, kind, times, deployed);
      // Warm-up: with its first requests, each client claims its rows of the mailboxes.
      work(count * WARM_UP * (deployment?.pairs ?? 1));
      return [kind, work(Math.ceil(operations))];
    }),
  );
}

function measure(
  settings: Settings,
  kind: Kind,
  operations: number,
  deployed: DeployedCluster<Index>,
): Measured {
  const { cluster, clients, servers } = deployed;
  const now = () => cluster.network.now;
  const puts = new PutTimes(geometriesOf(clients[0].index), now, cluster.network.awaitedSince);
  const latencies = new Histogram();
  const phases: Phases = {};
  const prng = Prng.fromSeed(settings.seed).fork(kind.length);
  const tripsOf = () => clients.reduce((sum, { pool }) => sum + roundTripsOf(pool), 0);
  const tripsBefore = tripsOf();
  const next = (client: PoolClient<Index>, request: Request) => {
    const record = prng.below(RECORDS - SCAN_KEYS);
    const operation = operationOf(kind, cluster, client, request, record);
    if (kind === 'PUT') return puts.put(operation);
    return timed(operation, now, kind === 'GET' ? phaseOfGet() : phaseOfScan, phases);
  };
  const serve = (isOver: () => boolean) =>
    servers?.begin(isOver, (role, round) => (role === 'hash' ? puts.serve(round) : round));
  const ns = runOperations(deployed, operations, next, serve, (each) => latencies.record(each));
  const rate = (operations * 1e9) / ns;
  const trips = (tripsOf() - tripsBefore) / operations;
  return { rate, trips, latencies, phases, put: puts.phases };
}

function roundTripsOf({ fabric }: PoolClient<Index>['pool']): number {
  return fabric.traffic.rows[ROUND_TRIPS];
}

function geometriesOf(index: Index) {
  return index instanceof HStoreIndex ? index.table.pairs.map(({ geometry }) => geometry) : [];
}

function operationOf(
  kind: Kind,
  { keys, values }: SimulatedCluster<Index>,
  { index, records }: PoolClient<Index>,
  request: Request,
  record: number,
): Operation<unknown> {
  const key = keys.bytes(record);
  if (kind === 'SCAN') return scanOf(index as OrderedIndex, key.slice(), SCAN_KEYS);
  if (kind === 'GET') {
    request.setKey(key, index.records.seed);
    return index.search(request);
  }
  records.encode(request, key, values.buffer(record, 1), 0);
  return index.write(request, ALWAYS);
}
