import type { Index } from '../../../indexes/contract.ts';
import { type ByHand, type ByHandOptions, shardByHand } from './by-hand.ts';
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
];
