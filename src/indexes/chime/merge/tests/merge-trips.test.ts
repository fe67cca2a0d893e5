import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../../contract.ts';
import { type Client, checked, clientOf, requestFor } from '../../tests/support/client.ts';

const KEYS = Array.from({ length: 400 }, (_, i) => `key ${1000 + i}`);

function filled(scope: Scope): Client {
  const client = clientOf(scope, { span: 16, neighbourhood: 8, fanout: 16, inlineBytes: 24 });
  for (const key of KEYS) put(client, key);
  return client;
}

function put(client: Client, key: string): void {
  client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
}

test('a merge by a remembered path takes 7 round trips', (t) => {
  const client = filled(t);
  const { tree } = client.index;
  const merges: string[][] = [];
  for (const key of KEYS) {
    const before = { merges: tree.merges, isOutdated: tree.outdated !== undefined };
    const removal = client.index.remove(requestFor(client, key));
    const { trips } = traced(client.pool.fabric, removal);
    // Others descend from the root, claim memory, or first read again what an earlier one left.
    if (before.isOutdated || tree.merges !== before.merges + 1) continue;
    if (trips.length === 2 + 7) merges.push(trips.slice(2));
  }
  assert.ok(merges.length > 8, `${merges.length} merges`);
  for (const [look, path, left, right, write, publish, link] of merges) {
    assert.match(look, /^READ READ( READ)?$/);
    assert.match(path, /^READ READ( READ)?$/);
    assert.deepEqual([left, right], ['WRITE CAS READ READ CAS', 'CAS READ READ']);
    assert.match(write, /^WRITE (WRITE )+CAS$/);
    assert.deepEqual([publish, link], ['WRITE CAS', 'CAS']);
  }
  assert.deepEqual(checked(client), { problems: [], records: 0 });
});
