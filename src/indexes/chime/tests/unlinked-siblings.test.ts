import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { ALWAYS } from '../../contract.ts';
import { unitsBeside } from '../geometry.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

const KEYS = Array.from({ length: 200 }, (_, i) => `key ${100 + i}`);

/** From now on the pool has blocks for leaves and intents, and none for internal nodes. */
function refuseNodes({ index: { tree } }: Client): void {
  const { allocator, geometry } = tree;
  const { allocate } = allocator;
  allocator.allocate = function* (catalog, units) {
    if (units === geometry.leafUnits) return yield* allocate.call(allocator, catalog, units);
    throw new StepwellError('SW_POOL_FULL', 'no block for a node');
  };
}

test('leaves that no parent leads to are reached one from the other, in a full pool too', (t) => {
  const writer = clientOf(t, { span: 16, neighbourhood: 8, fanout: 2, inlineBytes: 24 });
  const other = clientOf(t, {}, writer.handle);
  const put = (client: Client, key: string) =>
    client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
  assert.notEqual(writer.index.tree.geometry.leafUnits, unitsBeside(1));
  put(writer, KEYS[0]);
  for (const client of [writer, other]) refuseNodes(client);
  // In ascending order the last leaf is split again and again: a long chain behind one parent.
  KEYS.forEach((key, i) => {
    put(i % 2 === 0 ? writer : other, key);
  });
  assert.ok(writer.index.tree.splits + other.index.tree.splits > 10);
  for (const client of [writer, other]) {
    for (const key of KEYS) {
      const request = requestFor(client, key);
      assert.ok(client.pool.run(client.index.search(request)), key);
      assert.equal(foundText(request), key);
    }
    assert.ok(!client.pool.run(client.index.search(requestFor(client, 'key 999'))));
    const up = scanned(client, client.index.scan()).map(([, value]) => value);
    assert.deepEqual(up, KEYS);
    const down = scanned(client, client.index.scan({ reverse: true })).map(([, value]) => value);
    assert.deepEqual(down, KEYS.toReversed());
  }
  for (const key of KEYS.slice(5)) {
    assert.ok(other.pool.run(other.index.remove(requestFor(other, key))), key);
  }
  assert.deepEqual(checked(writer), { problems: [], records: 5 });
});
