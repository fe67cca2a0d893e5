import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

const VALUE = 'x'.repeat(100);

/** One leaf of items that all stand in records, or of some of each kind. */
function leafOf(t: Parameters<typeof clientOf>[0], keys: readonly string[], inline: boolean) {
  const client = clientOf(t, { span: 64, neighbourhood: 16 });
  keys.forEach((key, i) => {
    const value = inline && i % 3 === 0 ? '' : VALUE;
    client.pool.run(client.index.write(requestFor(client, key, `${key} ${value}`), ALWAYS));
  });
  assert.equal(client.index.tree.splits, 0);
  return client;
}

/** The keys that a scan meets, and how many records it reads. */
function met({ pool, index }: Client, range: KeyRange): { keys: string[]; reads: number } {
  const keys: string[] = [];
  const scan = index.scan(range);
  let reads = 0;
  while (!scan.done) {
    const step = scan.next((request) => keys.push(foundText(request).split(' ')[0]));
    const { trips } = traced(pool.fabric, step);
    reads += trips.slice(1).join(' ').split('READ').length - 1;
  }
  return { keys, reads };
}

const bound = (key: string, inclusive = true) => ({ key: Buffer.from(key), inclusive });

for (const inline of [false, true]) {
  test(`a limited scan reads the records that it visits, inline ones among them: ${inline}`, (t) => {
    const keys = Array.from({ length: 40 }, (_, i) => `key${100 + ((i * 7) % 40)}`);
    const client = leafOf(t, keys, inline);
    const sorted = keys.toSorted();
    const ranges: [KeyRange, string[]][] = [
      [{}, sorted],
      [{ lower: bound('key113') }, sorted.slice(13)],
      [{ lower: bound('key113', false), upper: bound('key130') }, sorted.slice(14, 31)],
    ];
    for (const [range, all] of ranges) {
      for (const reverse of [false, true]) {
        for (const limit of [1, 5, 16]) {
          const found = met(client, { ...range, reverse, limit });
          assert.deepEqual(found.keys, (reverse ? all.toReversed() : all).slice(0, limit));
          // Records whose prefixes are those of the bounds may be outside of the range.
          assert.ok(found.reads <= limit + 2, `${found.reads} reads for ${limit}`);
        }
      }
    }
  });
}

test('records with one prefix are all read: their order is behind it', (t) => {
  const keys = Array.from({ length: 20 }, (_, i) => `${'p'.repeat(60)}${100 + ((i * 7) % 20)}`);
  const client = leafOf(t, keys, false);
  for (const reverse of [false, true]) {
    const sorted = reverse ? keys.toSorted().toReversed() : keys.toSorted();
    assert.deepEqual(met(client, { reverse, limit: 3 }).keys, sorted.slice(0, 3));
  }
});
