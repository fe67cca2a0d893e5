import type { PoolHandle } from '../../../../store/api.ts';
import {
  type ByHand,
  clientOf as clientOfKind,
  foundText,
} from '../../../../store/tests/support/by-hand.ts';
import { type Scope, SMALL } from '../../../../store/tests/support/pools.ts';
import { CHIME, type ChimeIndex } from '../../chime.ts';
import type { ChimeShape } from '../../geometry.ts';
import type { ChimeScan } from '../../scan/scan.ts';

export { checked, foundText, requestFor } from '../../../../store/tests/support/by-hand.ts';

/** A client of a CHIME tree whose operations a test drives step by step. */
export type Client = ByHand<ChimeIndex>;

/** A new `memory:` pool with one tree, or another client of one. Within an operation's epoch. */
export function clientOf(
  scope: Scope,
  shape: Partial<Omit<ChimeShape, 'seed'>>,
  handle?: PoolHandle,
  size = SMALL.size,
): Client {
  const client = clientOfKind<ChimeIndex>(CHIME, scope, shape, { handle, size });
  client.pool.enter();
  scope.after(() => client.pool.exit());
  return client;
}

/** Keys as hexadecimal digits with their values. */
export function scanned({ pool }: Client, scan: ChimeScan): [string, string][] {
  const found: [string, string][] = [];
  while (!scan.done) {
    pool.run(
      scan.next((request, keyBytes) => {
        const key = Buffer.from(request.outgoing.u8.subarray(16, 16 + keyBytes));
        found.push([key.toString('hex'), foundText(request)]);
      }),
    );
  }
  return found;
}

/** The operations of some clients count as those of clients that are gone. */
export function areGoneFor(client: Client, ...dead: readonly Client[]): void {
  const ids = dead.map(({ pool }) => pool.membership.id);
  client.pool.membership.liveness = (row) => (ids.includes(row.id) ? 'gone' : 'alive');
  client.index.tree.patience = { spins: 0, polls: 1, microseconds: 1 };
}
