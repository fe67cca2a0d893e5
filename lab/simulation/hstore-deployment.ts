import type { Index } from '../../src/indexes/contract.ts';
import { HStoreIndex } from '../../src/indexes/hstore/hstore.ts';
import type { ServedRound } from '../../src/indexes/hstore/index-server.ts';
import { answerScans } from '../../src/indexes/hstore/skiplist-server/skiplist-server.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { LocalModel } from '../simulated/local-door.ts';
import { SHARED_WITH_NIC } from '../simulated/local-door.ts';
import type { Place } from '../simulated/network.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { PoolClient } from './pool-client.ts';

/** Where HStore's servers run, each on a thread of its own. */
export interface Deployment {
  readonly name: string;
  readonly pairs: number;
  /** On the memory node's machine, with this kind of atomics; otherwise on compute nodes. */
  readonly beside?: LocalModel['atomics'];
  /** CPU time of a verb beside the memory. Default: that of SHARED_MEMORY. */
  readonly verbNs?: number;
}

/** In the paper a server has the table and log in its own memory, and 4 workers (section 5). */
export const DEPLOYMENTS = [
  { name: 'network', pairs: 1 },
  { name: 'beside', pairs: 1, beside: 'coherent' },
  { name: 'beside, loopback', pairs: 1, beside: 'loopback' },
  { name: 'network, 4 pairs', pairs: 4 },
  { name: 'beside, 4 pairs', pairs: 4, beside: 'coherent' },
  // Assumed: a compiled server whose words are in a cache of its core.
  { name: 'beside, 4 pairs, 30 ns', pairs: 4, beside: 'coherent', verbNs: 30 },
] as const satisfies readonly Deployment[];

export function localModelOf({ beside, verbNs }: Deployment): LocalModel {
  const { atomics, ...costs } = SHARED_WITH_NIC;
  return { ...costs, atomics: beside ?? atomics, verbNs: verbNs ?? costs.verbNs };
}

const ROLES = ['hash', 'skiplist'] as const;
type Role = (typeof ROLES)[number];
type Watched = (role: Role, round: Operation<ServedRound>) => Operation<ServedRound>;

interface Server {
  readonly client: PoolClient<Index>;
  readonly role: Role;
  readonly pair: number;
}

/** The index servers of an HStore store. */
export class HStoreServers {
  readonly #servers: readonly Server[];

  constructor(
    cluster: SimulatedCluster<Index>,
    { pairs, beside }: Deployment,
    computeNodes: number,
  ) {
    this.#servers = Array.from({ length: pairs }, (_, pair) => pair).flatMap((pair) => {
      const place: Place = beside ? { memoryNode: 0 } : pair % computeNodes;
      return ROLES.map((role): Server => {
        return { client: cluster.addClient(place), role, pair };
      });
    });
  }

  /** Rows of the client table that the servers occupy. */
  static clientsOf({ pairs }: Deployment): number {
    return 2 * pairs;
  }

  /** Servers of these roles run rounds, wrapped by `watched`, until `isOver`. */
  begin(
    isOver: () => boolean,
    watched: Watched = (_, round) => round,
    roles: readonly Role[] = ROLES,
  ): void {
    for (const { client, role, pair } of this.#servers) {
      if (!roles.includes(role)) continue;
      const server = indexOf(client).server({ role, pairs: [pair + 1] });
      client.begin({ next: () => (isOver() ? undefined : watched(role, server.round())) });
    }
  }

  /** The skiplist servers only answer requests: they do not rebuild a lost table. */
  answerScans(isOver: () => boolean): void {
    for (const { client, role, pair } of this.#servers) {
      if (role !== 'skiplist') continue;
      const served = indexOf(client).table.pairs[pair];
      client.begin({ next: () => (isOver() ? undefined : answerScans(served)) });
    }
  }
}

function indexOf({ index }: PoolClient<Index>): HStoreIndex {
  if (index instanceof HStoreIndex) return index;
  throw new Error('only HStore has servers');
}
