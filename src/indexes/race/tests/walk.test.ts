import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientByHand, requestFor } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import { decodeCursor, encodeCursor, RaceWalk, WALK_START, type WalkPosition } from '../walk.ts';

/** The suffixes at whose first group the walk arrives, with their depths. */
function arrivals(walk: RaceWalk, step: () => void): string[] {
  const seen: string[] = [];
  let before: WalkPosition | undefined;
  while (walk.position !== undefined) {
    before = { ...walk.position };
    step();
    const after = walk.position;
    const descended = after !== undefined && after.depth > before.depth;
    if (before.bucket === 0 && !descended) seen.push(`${before.suffix}/${before.depth}`);
  }
  return seen;
}

for (const depth of [0, 1, 3, 5]) {
  test(`a walk visits each of ${2 ** depth} suffixes once, in the order of reversed bits`, (t) => {
    const race = { groups: 2, associativity: 7, initialDepth: depth, maxDepth: 8 };
    const { pool, index } = clientByHand(t, { race });
    const request = index.newRequest();
    const reversed = (suffix: number) =>
      suffix.toString(2).padStart(depth, '0').split('').reverse().join('');
    const suffixes = Array.from({ length: 2 ** depth }, (_, i) => i);
    suffixes.sort((a, b) => reversed(a).localeCompare(reversed(b)));
    const expected = suffixes.map((suffix) => `${suffix}/${depth}`);
    for (const start of [WALK_START, { suffix: 0, depth, bucket: 0 }]) {
      const walk = new RaceWalk(index.table, request, { ...start });
      assert.deepEqual(
        arrivals(walk, () => pool.run(walk.next(() => {}))),
        expected,
      );
    }
    // By cursors alone: nothing is remembered between two pages.
    const seen: string[] = [];
    for (let cursor = encodeCursor({ suffix: 0, depth, bucket: 0 }); cursor !== 0; ) {
      const position = decodeCursor(cursor, index.table.geometry.buckets);
      assert.ok(position);
      if (position.bucket === 0) seen.push(`${position.suffix}/${position.depth}`);
      const walk = new RaceWalk(index.table, request, position);
      pool.run(walk.next(() => {}));
      cursor = encodeCursor(walk.position);
    }
    assert.deepEqual(seen, expected);
  });
}

test('a cursor is its position', () => {
  for (const depth of [0, 1, 7, 24]) {
    for (const suffix of new Set([0, 1, 2 ** depth - 1].filter((each) => each < 2 ** depth))) {
      for (const bucket of [0, 3, 3 * 65_535]) {
        const cursor = encodeCursor({ suffix, depth, bucket });
        assert.ok(Number.isSafeInteger(cursor) && cursor > 0);
        assert.deepEqual(decodeCursor(cursor, 3 * 65_536), { suffix, depth, bucket });
      }
    }
  }
  assert.equal(encodeCursor(undefined), 0);
  assert.deepEqual(decodeCursor(0, 6), WALK_START);
});

test('what is no cursor of the table is none', () => {
  const beyond = encodeCursor({ suffix: 0, depth: 0, bucket: 6 });
  const deep = encodeCursor({ suffix: 0, depth: 25, bucket: 0 });
  const wide = encodeCursor({ suffix: 2, depth: 1, bucket: 0 });
  for (const cursor of [-1, 1.5, Number.NaN, 2 ** 60, 2, 3, beyond, deep, wide]) {
    assert.equal(decodeCursor(cursor, 6), undefined, `${cursor}`);
  }
});

test('long keys do not make a walk take ever more memory', (t) => {
  const client = clientByHand(t, { race: { groups: 2, initialDepth: 0, maxDepth: 4 } });
  const { pool, index } = client;
  const keys = Array.from({ length: 11 }, (_, i) => `${i}`.padEnd(20_000, '.'));
  for (const key of keys) pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
  const request = index.newRequest();
  const walk = new RaceWalk(index.table, request, { ...WALK_START });
  const found: number[] = [];
  while (walk.position) pool.run(walk.next((_, keyBytes) => found.push(keyBytes)));
  assert.deepEqual(found, new Array(11).fill(20_000));
  const bytes = request.incoming.u8.length;
  assert.ok(bytes < 4 * 2 ** 20, `the walk holds ${bytes} bytes`);
});
