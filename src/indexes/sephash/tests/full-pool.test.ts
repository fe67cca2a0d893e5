import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import {
  type ByHand,
  foundText,
  requestFor,
  sepHashByHand,
} from '../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import type { SepHashIndex } from '../sephash.ts';

type Client = ByHand<SepHashIndex>;

const MIB = 2 ** 20;
const SEPHASH = { segmentBytes: 128, ratio: 8, maxDepth: 12 };

/** Whether the operation found memory, if need be after the remedies of store/full-pool.ts. */
function succeeds({ pool, index }: Client, operation: () => Operation<unknown>): boolean {
  const remedies = [
    () => pool.betweenOperations(() => pool.reclaiming()) ?? false,
    () => (pool.betweenOperations(() => sweep(pool, index)) ?? 0) > 0,
  ];
  for (;;) {
    pool.enter();
    try {
      pool.run(operation());
      return true;
    } catch (error) {
      assert.ok(error instanceof StepwellError && error.code === 'SW_POOL_FULL', String(error));
    } finally {
      pool.exit();
    }
    let helped = false;
    while (!helped && remedies.length > 0) helped = remedies.shift()?.() ?? false;
    if (!helped) return false;
  }
}

/** Puts until the pool is full; returns how many keys there are. */
function fill(client: Client, value: string): number {
  const put = (i: number) => client.index.write(requestFor(client, `k${i}`, value), ALWAYS);
  for (let i = 0; ; i++) if (!succeeds(client, () => put(i))) return i;
}

for (const bytes of [1000, 12_000]) {
  for (const mebibytes of [3.25, 3.5, 3.75, 4, 4.25]) {
    test(`from a full pool of ${mebibytes} MiB all values of ${bytes} bytes can be deleted`, (t) => {
      const client = sepHashByHand(t, { size: mebibytes * MIB, maxClients: 8, sephash: SEPHASH });
      const { pool, index } = client;
      const value = 'v'.repeat(bytes);
      const count = fill(client, value);
      assert.ok(count > 100);
      for (let i = 0; i < count; i++) {
        const request = requestFor(client, `k${i}`);
        assert.ok(pool.run(index.search(request)) && foundText(request) === value);
        const remove = () => index.remove(requestFor(client, `k${i}`));
        assert.ok(succeeds(client, remove), `${i} of ${count}`);
      }
      assert.equal(pool.run(index.shape()).records, 0);
      assert.ok(fill(client, value) > count / 2);
    });
  }
}
