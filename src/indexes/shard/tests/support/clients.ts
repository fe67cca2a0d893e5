import {
  type ByHand,
  foundText,
  requestFor,
  shardByHand,
} from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../../contract.ts';
import type { ShardIndex } from '../../shard.ts';

export type Client = ByHand<ShardIndex>;

/**
 * Several clients of one table, each in an epoch section until the test ends. Nobody synchronises,
 * so nobody resizes, unless the test does; and nobody waits for a slow mover.
 */
export function clients(
  scope: Scope,
  count: number,
  shard: Readonly<Record<string, number>>,
): Client[] {
  const first = shardByHand(scope, { shard });
  const all = [first];
  while (all.length < count) all.push(shardByHand(scope, { shard, handle: first.handle }));
  for (const { pool, index } of all) {
    pool.enter();
    scope.after(() => pool.exit());
    // Claimed ahead, so that the first step of a write is its first READ.
    pool.run(pool.allocator.refill(pool.allocator.sizeClass(index.records.catalog, 1)));
    index.table.syncEvery = Number.POSITIVE_INFINITY;
    index.table.patience = { polls: 1, microseconds: 1 };
  }
  return all;
}

/** As a store does: an epoch is announced first, now and then, unless one is held already. */
export function within<T>({ pool }: Client, operation: () => T): T {
  pool.enter();
  try {
    return operation();
  } finally {
    pool.exit();
  }
}

export function put(client: Client, key: string, value = key): number {
  const { pool, index } = client;
  return within(client, () => pool.run(index.write(requestFor(client, key, value), ALWAYS)));
}

export function remove(client: Client, key: string): boolean {
  return within(client, () => client.pool.run(client.index.remove(requestFor(client, key))));
}

export function get(client: Client, key: string): string | undefined {
  const { pool, index } = client;
  return within(client, () => {
    const request = requestFor(client, key);
    if (!pool.run(index.search(request))) return undefined;
    pool.run(index.records.complete(request));
    return foundText(request);
  });
}
