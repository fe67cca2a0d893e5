import type { Index } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import { type Deployment, HStoreServers, localModelOf } from './hstore-deployment.ts';
import type { PoolClient } from './pool-client.ts';
import { registeredKind } from './registered-kind.ts';

export const RECORDS = 20_000;
const COMPUTE_NODES = 4;
const POOL_BYTES = 2 ** 27;

/** An index, and where its servers run, if it has servers. */
export interface System {
  name: string;
  index: string;
  wishes: Readonly<Record<string, number>>;
  deployment?: Deployment;
}

/** A cluster with `RECORDS` records, its clients, and the index's servers, if it has servers. */
export interface DeployedCluster<I extends Index> {
  cluster: SimulatedCluster<I>;
  clients: PoolClient<I>[];
  servers: HStoreServers | undefined;
}

/**
 * The clients run `count` operations together while `serve` lets servers serve until they are done.
 * Returns the nanoseconds of virtual time that the operations took.
 */
export function runOperations<I extends Index>(
  { cluster: { network }, clients }: Pick<DeployedCluster<I>, 'cluster' | 'clients'>,
  count: number,
  next: (client: PoolClient<I>, request: Request) => Operation<unknown>,
  serve?: (isOver: () => boolean) => void,
  ended?: (latencyNs: number) => void,
): number {
  const began = network.now;
  let lastEnd = began;
  let left = count;
  let working = count;
  for (const client of clients) {
    client.begin({
      next: (request) => (left-- > 0 ? next(client, request) : undefined),
      ended: (_, latencyNs) => {
        working--;
        lastEnd = network.now;
        ended?.(latencyNs);
      },
    });
  }
  serve?.(() => working === 0);
  network.run();
  return lastEnd - began;
}

export function deployedCluster<I extends Index>(
  { model, seed }: Settings,
  { index, wishes, deployment }: System,
  count: number,
): DeployedCluster<I> {
  const cluster = new SimulatedCluster<I>({
    model,
    seed,
    poolBytes: POOL_BYTES,
    ...(deployment && { local: localModelOf(deployment) }),
    kind: registeredKind<I>(index, wishes),
    clients: count + (deployment ? HStoreServers.clientsOf(deployment) : 0),
    computeNodes: COMPUTE_NODES,
  });
  cluster.load(RECORDS);
  const servers = deployment && new HStoreServers(cluster, deployment, COMPUTE_NODES);
  const clients = Array.from({ length: count }, (_, i) => cluster.addClient(i % COMPUTE_NODES));
  return { cluster, clients, servers };
}
