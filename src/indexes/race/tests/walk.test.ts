import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientByHand, requestFor } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import { cursorOf } from '../../traversal/part-orders.ts';
import { PartsWalk } from '../../traversal/walk.ts';
import { RaceParts } from '../parts.ts';

/** The suffix, with its depth, that the traversal comes to now, if it is at its first group. */
function* arrivalAt({ order }: RaceParts): Generator<string> {
  const { suffix, depth, at } = order.position;
  if (at === 0) yield `${suffix}/${depth}`;
}

for (const depth of [0, 1, 3, 5]) {
  test(`a walk visits each of ${2 ** depth} suffixes once, in the order of reversed bits`, (t) => {
    const race = { groups: 2, associativity: 7, initialDepth: depth, maxDepth: 8 };
    const { pool, index } = clientByHand(t, { race });
    const reversed = (suffix: number) =>
      suffix.toString(2).padStart(depth, '0').split('').reverse().join('');
    const suffixes = Array.from({ length: 2 ** depth }, (_, i) => i);
    suffixes.sort((a, b) => reversed(a).localeCompare(reversed(b)));
    const expected = suffixes.map((suffix) => `${suffix}/${depth}`);
    for (const cursor of [0, cursorOf({ suffix: 0, depth, at: 0 })]) {
      const seen: string[] = [];
      const parts = new RaceParts(index.table, cursor);
      for (; !parts.order.done; parts.order.pass()) {
        pool.run(parts.read());
        seen.push(...arrivalAt(parts));
      }
      assert.deepEqual(seen, expected);
    }
    // By cursors alone: nothing is remembered between two pages.
    const seen: string[] = [];
    for (let cursor = cursorOf({ suffix: 0, depth, at: 0 }); cursor !== 0; ) {
      const parts = new RaceParts(index.table, cursor);
      seen.push(...arrivalAt(parts));
      const walk = new PartsWalk(parts, index.records, index.newRequest());
      pool.run(walk.next(() => {}));
      cursor = walk.cursor;
    }
    assert.deepEqual(seen, expected);
  });
}

test('long keys do not make a walk take ever more memory', (t) => {
  const client = clientByHand(t, { race: { groups: 2, initialDepth: 0, maxDepth: 4 } });
  const { pool, index } = client;
  const keys = Array.from({ length: 11 }, (_, i) => `${i}`.padEnd(20_000, '.'));
  for (const key of keys) pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
  const request = index.newRequest();
  const walk = new PartsWalk(new RaceParts(index.table), index.records, request);
  const found: number[] = [];
  while (!walk.done) pool.run(walk.next((_, keyBytes) => found.push(keyBytes)));
  assert.deepEqual(found, new Array(11).fill(20_000));
  const bytes = request.incoming.u8.length;
  assert.ok(bytes < 4 * 2 ** 20, `the walk holds ${bytes} bytes`);
});
