import { Histogram } from '../../fabrics/simulated/histogram.ts';
import { ALWAYS, type OrderedIndex } from '../../indexes/contract.ts';
import type { HStoreIndex } from '../../indexes/hstore/hstore.ts';
import { IndexServer } from '../../indexes/hstore/index-server.ts';
import type { Request } from '../../indexes/request.ts';
import { Prng } from '../../random/prng.ts';
import type { Operation } from '../../verbs/index.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import {
  type Phases,
  phaseOfGet,
  phaseOfPut,
  phaseOfScan,
  phaseOfTurn,
  timed,
} from './hstore-phases.ts';
import type { PoolClient } from './pool-client.ts';
import { registeredKind } from './registered-kind.ts';

/** HStore Figures 7 and 8 at their two ends. */
const CLIENTS = [4, 32] as const;
const RECORDS = 20_000;
const COMPUTE_NODES = 4;
const POOL_BYTES = 2 ** 26;
/** Keys of a SCAN (section 5.2); a SCAN is so many records, so fewer of them are measured. */
const SCAN_KEYS = 100;
const SCANS_SHARE = 20;

type Client = PoolClient<HStoreIndex>;
type Kind = 'PUT' | 'GET' | 'SCAN';

interface Measured {
  /** Operations a second of virtual time. */
  rate: number;
  latencies: Histogram;
  /** Of all operations, and of the hash server's turns, weighted by what they answer. */
  phases: Phases;
}

/**
 * PUT, GET and SCAN with a hash server and a skiplist server as processes of their own, of which
 * each is a thread on a compute node: the pool, table and log included, is on the memory node.
 */
export const hstoreBasics: Experiment = {
  name: 'hstore',
  run(settings) {
    const rows: Row[] = [];
    for (const clients of CLIENTS) {
      const async = measureAll(settings, clients, 0);
      const sync = measureAll(settings, clients, 1);
      if (clients === CLIENTS[1]) rows.push(...breakdown(async));
      for (const kind of ['PUT', 'GET', 'SCAN'] as const)
        rows.push(row(kind, clients, async[kind]));
      rows.push({
        what: `PUT, ${clients} clients: throughput of HStore to HStore (sync)`,
        ours: async.PUT.rate / sync.PUT.rate,
        unit: 'x',
        published: clients === 4 ? undefined : PUBLISHED_MOST,
        detail: `sync ${(sync.PUT.latencies.mean / 1000).toFixed(1)} us; the paper: 1.04 to 1.23`,
      });
    }
    const notes = [
      `${RECORDS} records of 16 and 32 bytes; the paper has 100 M, 4 RPC and 4 worker threads.`,
      'A server here reaches table and log over the network; the paper’s has them in its memory.',
    ];
    return { title: 'HStore: basic operations (Figures 7, 8 and 9)', rows, notes };
  },
};

/** HStore section 5.2: async is up to 22.9 % faster; for how many clients it does not say. */
const PUBLISHED_MOST = 1.229;

/** Figure 9: what a PUT, a GET and a SCAN spend their time on, in percent. */
function breakdown({ PUT, GET, SCAN }: Record<Kind, Measured>): Row[] {
  const { rpc = 0, wait = 0, turnIndex = 0, turnLog = 0 } = PUT.phases;
  const put = {
    'request, and record written': rpc,
    'queue wait': Math.max(0, wait - turnIndex - turnLog),
    'index operation': turnIndex,
    'log and table written': turnLog,
  };
  const read = ({ phases }: Measured) => ({
    index: phases.index ?? 0,
    'key-value access': phases.records ?? 0,
  });
  const published: Record<string, number> = {
    'PUT: log and table written': 24,
    'GET: index': 50,
    'GET: key-value access': 50,
    'SCAN: index': 4,
    'SCAN: key-value access': 96,
  };
  const shares = Object.entries({ PUT: put, GET: read(GET), SCAN: read(SCAN) });
  return shares.flatMap(([kind, phases]) => {
    const whole = Object.values(phases).reduce((sum, part) => sum + part, 0);
    return Object.entries(phases).map(([phase, part]): Row => {
      const what = `${kind}: ${phase}`;
      const row: Row = { what: `${what}, share`, ours: (100 * part) / whole, unit: '%' };
      return published[what] === undefined ? row : { ...row, published: published[what] };
    });
  });
}

function row(kind: Kind, clients: number, { rate, latencies }: Measured): Row {
  return {
    what: `${kind}, ${clients} clients, mean`,
    ours: latencies.mean / 1000,
    unit: 'us',
    detail: `${(rate / 1e6).toFixed(3)} M/s, 99 % ${(latencies.quantile(0.99) / 1000).toFixed(1)}`,
  };
}

function measureAll(settings: Settings, count: number, sync: number): Record<Kind, Measured> {
  const cluster = new SimulatedCluster<HStoreIndex>({
    ...{ model: settings.model, seed: settings.seed, poolBytes: POOL_BYTES },
    kind: registeredKind<HStoreIndex>('hstore', { buckets: 8192, rows: 64, sync }),
    clients: count + 2,
    computeNodes: COMPUTE_NODES,
  });
  cluster.load(RECORDS);
  const servers = (['hash', 'skiplist'] as const).map((role) => ({
    client: cluster.addClient(0),
    role,
  }));
  const clients = Array.from({ length: count }, (_, i) => cluster.addClient(i % COMPUTE_NODES));
  const working = { left: 0 };
  const measured = (kind: Kind) => {
    const operations = settings.operations / (kind === 'SCAN' ? SCANS_SHARE : 1);
    const latencies = new Histogram();
    const phases: Phases = {};
    const now = () => cluster.network.now;
    const prng = Prng.fromSeed(settings.seed).fork(kind.length);
    let left = operations;
    working.left = operations;
    const began = cluster.network.now;
    let ended = began;
    for (const client of clients) {
      client.begin({
        next: (request) => {
          if (left-- <= 0) return undefined;
          const record = prng.below(RECORDS - SCAN_KEYS);
          const operation = operationOf(kind, cluster, client, request, record);
          return timed(operation, now, phaseOf(kind), phases);
        },
        ended: (_, ns) => {
          latencies.record(ns);
          working.left--;
          ended = cluster.network.now;
        },
      });
    }
    for (const { client, role } of servers) {
      const server = new IndexServer(client.index.table, { role });
      const round = () => (role === 'hash' ? timedTurn(server, now, phases) : server.round());
      client.begin({ next: () => (working.left > 0 ? round() : undefined) });
    }
    cluster.network.run();
    return { rate: (operations * 1e9) / (ended - began), latencies, phases };
  };
  return { PUT: measured('PUT'), GET: measured('GET'), SCAN: measured('SCAN') };
}

function phaseOf(kind: Kind) {
  if (kind === 'PUT') return phaseOfPut;
  return kind === 'GET' ? phaseOfGet() : phaseOfScan;
}

/** Whoever is answered in a turn has waited for all of it. */
function* timedTurn(server: IndexServer, now: () => number, phases: Phases): Operation<unknown> {
  const own: Phases = {};
  const round = yield* timed(server.round(), now, phaseOfTurn, own);
  phases.turnIndex = (phases.turnIndex ?? 0) + round.answered * (own.index ?? 0);
  phases.turnLog = (phases.turnLog ?? 0) + round.answered * (own.log ?? 0);
  return round;
}

function operationOf(
  kind: Kind,
  { keys, values }: SimulatedCluster<HStoreIndex>,
  { index, records }: Client,
  request: Request,
  record: number,
): Operation<unknown> {
  const key = keys.bytes(record);
  if (kind === 'SCAN') return scanOf(index, key.slice());
  if (kind === 'GET') {
    request.setKey(key, index.hashSeed);
    return index.search(request as never);
  }
  records.encode(request, key, values.buffer(record, 1), index.hashSeed, 0);
  return index.write(request as never, ALWAYS);
}

function* scanOf(index: OrderedIndex, key: Uint8Array): Operation<number> {
  const scan = index.scan({ lower: { key, inclusive: true }, limit: SCAN_KEYS });
  let found = 0;
  while (!scan.done) {
    yield* scan.next(() => {
      found++;
    });
  }
  return found;
}
