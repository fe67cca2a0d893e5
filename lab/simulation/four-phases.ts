import type { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import { HALF_FULL_RECORDS } from './half-full.ts';
import { KINDS, type Kind } from './operations.ts';
import { type Phase, runPhase } from './phases.ts';
import type { PoolClient } from './pool-client.ts';

/** `clients` insert new records, then search, update and delete them. */
export function fourPhases(
  cluster: SimulatedCluster,
  clients: readonly PoolClient[],
  { operations: count, seed }: Settings,
): Record<Kind, Phase> {
  const run = (kind: Kind) =>
    runPhase(cluster, clients, { kind, from: HALF_FULL_RECORDS, count, seed });
  const insert = run('insert');
  const search = run('search');
  const update = run('update');
  return { insert, search, update, delete: run('delete') };
}

/** A figure for each kind of operation. */
export function byKind<T>(figure: (kind: Kind) => T): T[] {
  return KINDS.map(figure);
}
