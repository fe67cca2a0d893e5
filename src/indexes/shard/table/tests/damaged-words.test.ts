import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../../pool/control.ts';
import { requestFor } from '../../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../../store/tests/support/codes.ts';
import { pointerHigh, pointerLow } from '../../../substrates/claims/slot-format.ts';
import { eachReachable } from '../../../sweep.ts';
import { clients, get, put, within } from '../../tests/support/clients.ts';
import { NODE_LINK } from '../geometry.ts';

test('a chain of level 3 that leads back into itself ends every call', (t) => {
  const [client] = clients(t, 1, { buckets: 1, level1: 1, level2: 1, resizes: 0 });
  for (let i = 0; i < 40; i++) put(client, `key ${i}`);
  const { pool, index } = client;
  const absent = requestFor(client, 'absent');
  within(client, () => pool.run(index.search(absent)));
  assert.ok(absent.nodes.length > 1, 'there is a chain');
  const [first] = absent.nodes;
  const link = (BigInt(pointerHigh(first) >>> 0) << 32n) | BigInt(pointerLow(first) >>> 0);
  pool.run(control.store(first + NODE_LINK, link));
  throwsCode('SW_POOL_CORRUPT', () => get(client, 'absent'));
  throwsCode('SW_POOL_CORRUPT', () => put(client, 'absent'));
  throwsCode('SW_POOL_CORRUPT', () => pool.run(eachReachable(index, () => {})));
});
