import type { Index } from '../../src/indexes/contract.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import type { IndexKind } from './index-kind.ts';
import { COMPUTE_NODES } from './puts.ts';
import { type Saturation, saturate } from './saturation.ts';

interface SearchesOptions {
  kind: IndexKind<Index>;
  clients: number;
  records: number;
  poolBytes: number;
}

/** Searches of uniformly drawn records, by clients without an end. */
export function runSearches(settings: Settings, options: SearchesOptions): Saturation {
  const { kind, clients, records, poolBytes } = options;
  const { model, seed } = settings;
  const cluster = new SimulatedCluster({
    model,
    seed,
    kind,
    clients,
    poolBytes,
    computeNodes: COMPUTE_NODES,
  });
  cluster.load(records);
  return saturate(cluster, { kind: 'search', clients, coroutines: 1, records }, settings);
}
