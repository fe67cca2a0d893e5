import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../../errors.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { childrenIn, separatorIn } from '../nodes/internal-node.ts';
import { addressOfLink, type Link, sizeOfLink } from '../nodes/link.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

const LONG = 'a key that is longer than sixteen bytes, and its pivot is too: ';

/** The leaf with the lowest keys. */
function firstLeaf({ pool, index }: Client): Link {
  const request = requestFor({ index } as Client, LONG);
  pool.run(index.tree.begin(request));
  return { low: request.leafLow, high: request.leafHigh };
}

function pivotOf({ pool, index }: Client, leaf: Link): string {
  const bounds = pool.run(index.tree.readBounds(leaf));
  return Buffer.from(bounds?.pivot ?? '').toString('latin1');
}

/** A tree of keys whose pivots stand in blocks of their own. */
function treeOf(scope: Parameters<typeof clientOf>[0], keys: number): Client {
  const client = clientOf(scope, { span: 16, neighbourhood: 8, inlineBytes: 24 });
  const { pool, index } = client;
  for (let i = 0; i < keys; i++) {
    pool.run(index.write(requestFor(client, `${LONG}${100 + i}`, 'value'), ALWAYS));
  }
  return client;
}

function* reading(address: number, bytes: number, to: Scratch): Operation<void> {
  yield new Batch().read(address, bytes, to, 0);
}

function* writing(address: number, bytes: number, from: Scratch): Operation<void> {
  yield new Batch().write(address, bytes, from, 0);
}

test('a pivot in a block is read by each operation: the block may be used again since', (t) => {
  // Found by a soak: a split linked a leaf by a pivot that had been in its pivot's block before.
  const client = treeOf(t, 100);
  const { pool, index } = client;
  const leaf = firstLeaf(client);
  const pivot = pivotOf(client, leaf);
  assert.ok(pivot.startsWith(LONG));
  const probe = index.tree.idleRequests.take();
  const block = probe.longPivot?.block as number;
  index.tree.idleRequests.give(probe);
  const other = new Scratch(8);
  other.u8.fill(0x5a);
  pool.run(writing(block, 8, other));
  assert.equal(pivotOf(client, leaf), `ZZZZZZZZ${pivot.slice(8)}`);
});

test('a separator that stands twice is found by a check', (t) => {
  const client = treeOf(t, 100);
  const { pool, index } = client;
  assert.deepEqual(checked(client).problems, []);
  const node = index.tree.cache.top?.node(0);
  assert.ok(node !== undefined);
  const address = addressOfLink(node.low, node.high);
  const bytes = UNIT_BYTES << sizeOfLink(node.high);
  const image = new Scratch(bytes);
  pool.run(reading(address, bytes, image));
  const separators = Array.from({ length: childrenIn(image) - 1 }, (_, i) => separatorIn(image, i));
  const placeOf = (i: number) => Buffer.from(image.u8).indexOf(separators[i]);
  for (let i = 0; i < separators.length; i++) {
    for (let j = 0; j < separators.length; j++) {
      if (i === j || separators[i].length !== separators[j].length) continue;
      const damaged = new Scratch(bytes);
      damaged.u8.set(image.u8);
      damaged.u8.set(separators[i], placeOf(j));
      pool.run(writing(address, bytes, damaged));
      index.tree.cache.forget();
      assert.ok(findsFault(client), `separator ${i} in the place of ${j}`);
    }
  }
});

function findsFault(client: Client): boolean {
  try {
    return checked(client).problems.length > 0;
  } catch (error) {
    return hasCode(error, 'SW_POOL_CORRUPT');
  }
}
