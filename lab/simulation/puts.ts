import { ALWAYS, type Index, resizesOf, retriesOf } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import type { MeasuredUse } from '../simulated/measured-use.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import type { IndexKind } from './index-kind.ts';
import type { PoolClient } from './pool-client.ts';

interface PutsOptions {
  kind: IndexKind<Index>;
  clients: number;
  /** Keys that are loaded before the clock starts, and new keys that the clients put. */
  loaded?: number;
  puts: number;
  poolBytes?: number;
}

export interface Puts {
  /** Operations per second of virtual time. */
  rate: number;
  latencies: Histogram;
  use: MeasuredUse;
  /** Sums over all clients: resizes by kind, retries by cause. */
  resizes: Record<string, number>;
  retries: Record<string, number>;
}

/** SepHash's testbed: eight machines, one of which is the memory node. */
export const COMPUTE_NODES = 7;
const POOL_BYTES = 2 ** 28;

/** Clients put new keys. No index needs to search for a key before a put. */
export function runPuts({ model, seed }: Settings, options: PutsOptions): Puts {
  const { kind, clients: count, loaded = 0, puts, poolBytes = POOL_BYTES } = options;
  const cluster = new SimulatedCluster({
    model,
    seed,
    kind,
    poolBytes,
    clients: count,
    computeNodes: COMPUTE_NODES,
  });
  if (loaded > 0) cluster.load(loaded);
  const { network } = cluster;
  const latencies = new Histogram();
  let next = loaded;
  const clients = Array.from({ length: count }, (_, i) => cluster.addClient(i % COMPUTE_NODES));
  for (const client of clients) {
    client.begin({
      next: (request) =>
        next < loaded + puts ? putOf(cluster, client, request, next++) : undefined,
      ended(result, latencyNs) {
        if (!(typeof result === 'number' && result > 0)) throw new Error('a put was refused');
        latencies.record(latencyNs);
      },
    });
  }
  const begin = network.now;
  network.beginMeasurement();
  network.run();
  return {
    rate: (puts * 1e9) / (network.now - begin),
    latencies,
    use: network.measure(),
    resizes: sumOf(clients.map(({ index }) => resizesOf(index))),
    retries: sumOf(clients.map(({ index }) => retriesOf(index))),
  };
}

function putOf(
  { keys, values }: SimulatedCluster<Index>,
  { index, records }: PoolClient<Index>,
  request: Request,
  record: number,
): Operation<unknown> {
  const value = values.buffer(record, 1);
  records.encode(request, keys.bytes(record), value, 0);
  return index.write(request, ALWAYS);
}

function sumOf(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const each of counts) {
    for (const [name, count] of Object.entries(each)) sum[name] = (sum[name] ?? 0) + count;
  }
  return sum;
}
