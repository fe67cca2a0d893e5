import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import { Batch, Scratch, setWord } from '../../../verbs/index.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { LeafWalk } from '../leaf-walk.ts';
import { hintOf, isLive, withHint } from '../slot.ts';
import { type Client, checked, clientOf, requestFor, scanned } from './support/client.ts';

const SMALL = { span: 8, neighbourhood: 4, fanout: 4 };

/** In an order that is not theirs. */
function keysOf(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `user:${1000 + ((i * 7919) % count)}`);
}

function put(client: Client, key: string, value = key): void {
  client.pool.run(client.index.write(requestFor(client, key, value), ALWAYS));
}

/** Of every entry of the tree: where its slot stands, its halves and its hint. */
function entries({ pool, index: { tree } }: Client) {
  const found: { at: number; low: number; high: number; hint: number }[] = [];
  tree.cache.begin();
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) {
    const { address, slots } = pool.run(leaves.next());
    for (let slot = 0; slot < slots.length / 2; slot++) {
      const [low, high] = slots.subarray(2 * slot, 2 * slot + 2);
      const at = tree.geometry.slotAddress(address, slot);
      if (isLive(low, high)) found.push({ at, low, high, hint: hintOf(high) });
    }
  }
  return found;
}

const unknown = (client: Client) => entries(client).filter(({ hint }) => hint === 0).length;

test('insertions and splits know where their keys are, and so does a load in order', (t) => {
  const grown = clientOf(t, SMALL);
  for (const key of keysOf(600)) put(grown, key);
  assert.equal(entries(grown).length, 600);
  assert.equal(unknown(grown), 0);
  const loaded = clientOf(t, SMALL);
  const list = keysOf(600).sort();
  loaded.pool.run(loaded.index.load(list.map((key) => [Buffer.from(key), Buffer.from(key)])));
  assert.equal(unknown(loaded), 0);
  for (const client of [grown, loaded]) {
    assert.deepEqual(checked(client), { problems: [], records: 600 });
    const used = new Set(entries(client).map(({ hint }) => hint));
    assert.ok(used.size >= 6, `${used.size} hints are in use`);
  }
});

test('leaves that were merged have no hints until their entries are written', (t) => {
  const client = clientOf(t, SMALL);
  const { pool, index } = client;
  const keys = keysOf(600);
  for (const key of keys) put(client, key);
  const left = keys.filter((_, i) => i % 6 === 0);
  for (const key of keys) {
    if (!left.includes(key)) pool.run(index.remove(requestFor(client, key)));
  }
  assert.ok(index.tree.merges > 0 && unknown(client) > left.length / 4);
  const sorted = left.toSorted();
  const values = (range: KeyRange) => scanned(client, index.scan(range)).map(([, value]) => value);
  assert.deepEqual(checked(client), { problems: [], records: left.length });
  for (const reverse of [false, true]) {
    const order = reverse ? sorted.toReversed() : sorted;
    for (const limit of [1, 2, 3, 7, 20, undefined]) {
      for (const first of [0, 1, 13, 50]) {
        const bound = { key: Buffer.from(order[first]), inclusive: true };
        const range = reverse ? { upper: bound, reverse, limit } : { lower: bound, limit };
        assert.deepEqual(values(range), order.slice(first, first + (limit ?? order.length)));
      }
    }
  }
  for (const key of left) put(client, key, 'again');
  assert.equal(unknown(client), 0);
  assert.deepEqual(checked(client), { problems: [], records: left.length });
});

test('a check tells a hint that is not that of its key', (t) => {
  const client = clientOf(t, SMALL);
  for (const key of keysOf(200)) put(client, key);
  assert.deepEqual(checked(client).problems, []);
  const [, { at, low, high, hint }] = entries(client);
  const word = new Scratch(8);
  setWord(word, 0, low, withHint(high, hint === 9 ? 10 : 9));
  client.pool.run(writing(new Batch().write(at, 8, word, 0)));
  const [problem, ...others] = checked(client).problems;
  assert.match(problem, /its slot says place (9|10) of the leaf, and its key \d+/);
  assert.deepEqual(others, []);
});

function* writing(batch: Batch) {
  yield batch;
}

/** Records that a scan reads: READs but two for each leaf. */
function recordsRead(client: Client, range: KeyRange): number {
  const scan = client.index.scan(range);
  const { trips } = traced(
    client.pool.fabric,
    scan.next(() => {}),
  );
  return trips.slice(1).reduce((sum, trip) => sum + trip.split(' ').length, 0);
}

test('a scan reads few records that it does not hand out', (t) => {
  const client = clientOf(t, {});
  const keys = keysOf(4000);
  for (const key of keys) put(client, key);
  const sorted = keys.toSorted();
  let read = 0;
  for (let i = 0; i < 100; i++) {
    const key = Buffer.from(sorted[37 * i + 100]);
    const bound = { key, inclusive: true };
    read += recordsRead(
      client,
      i % 2 === 0 ? { lower: bound, limit: 10 } : { upper: bound, limit: 10, reverse: true },
    );
  }
  assert.ok(read >= 1000 && read < 1500, `${read} records for 1000`);
  const bounds = (from: number, to: number) => ({
    lower: { key: Buffer.from(sorted[from]), inclusive: true },
    upper: { key: Buffer.from(sorted[to]), inclusive: false },
  });
  assert.ok(recordsRead(client, bounds(2000, 2005)) < 12);
});
