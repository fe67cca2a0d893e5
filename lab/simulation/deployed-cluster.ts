import type { Index } from '../../src/indexes/contract.ts';
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
