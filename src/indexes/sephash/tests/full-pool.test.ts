import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  foundText,
  requestFor,
  sepHashByHand,
} from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import type { SepHashIndex } from '../sephash.ts';
import { succeeds } from './support/full-pool.ts';

type Client = ByHand<SepHashIndex>;

const MIB = 2 ** 20;
const SEPHASH = { segmentBytes: 128, ratio: 8, maxDepth: 12 };

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
