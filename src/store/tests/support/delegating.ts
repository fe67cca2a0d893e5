import { CHIME, type ChimeIndex } from '../../../indexes/chime/chime.ts';
import type { Index } from '../../../indexes/contract.ts';
import { type ByHand, type ByHandOptions, clientOf, shardByHand } from './by-hand.ts';
import type { Scope } from './pools.ts';

/** A client of an index of any kind whose operations share verbs. */
export type Delegating = ByHand<Index>;

interface DelegatingKind {
  name: string;
  /** A client of a new index, or of that of another client, with read delegation on. */
  delegating: (scope: Scope, options?: ByHandOptions) => Delegating;
  /** The same without it. */
  another: (scope: Scope, options?: ByHandOptions) => Delegating;
}

/** The kinds that have read delegation and write combining. */
export const DELEGATING: readonly DelegatingKind[] = [
  {
    name: 'SHARD',
    another: shardByHand,
    delegating(scope, options) {
      const client = shardByHand(scope, options);
      client.index.configure({ delegation: true });
      return client;
    },
  },
  {
    name: 'CHIME',
    another: chimeByHand,
    delegating(scope, options) {
      const client = chimeByHand(scope, options);
      client.index.configure({ delegation: true });
      return client;
    },
  },
];

function chimeByHand(scope: Scope, options: ByHandOptions = {}): ByHand<ChimeIndex> {
  const client = clientOf<ChimeIndex>(CHIME, scope, options.chime ?? {}, options);
  // Only within an epoch is anything of the tree remembered.
  client.pool.enter();
  scope.after(() => client.pool.exit());
  return client;
}
