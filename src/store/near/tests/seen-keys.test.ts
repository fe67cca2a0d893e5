import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import { SeenKeys } from '../seen-keys.ts';

function hashes(count: number): [number, number][] {
  const prng = Prng.fromSeed(count);
  return Array.from({ length: count }, () => [prng.next32() | 0, prng.next32() | 0]);
}

test('a key is remembered until as many others were read', () => {
  for (const keys of [1, 2, 3, 100, 1000, 5000]) {
    const seen = new SeenKeys(keys);
    const all = hashes(4 * keys + 4);
    let forgotten = 0;
    all.forEach(([h1, h2], i) => {
      seen.hasOrAdd(h1, h2);
      const [a1, a2] = all[Math.max(0, i - keys + 1)];
      if (!seen.hasOrAdd(a1, a2)) forgotten++;
    });
    // What seemed to be known is not added.
    assert.ok(forgotten <= keys / 50, `${forgotten} of ${keys}`);
  }
});

test('few new keys seem to be known, however many were read', () => {
  const seen = new SeenKeys(10_000);
  const all = hashes(100_000);
  const known = all.filter(([h1, h2]) => seen.hasOrAdd(h1, h2)).length;
  assert.ok(known < 1000, `${known} of ${all.length}`);
});

test('old keys are forgotten', () => {
  const seen = new SeenKeys(1000);
  const all = hashes(5000);
  for (const [h1, h2] of all) seen.hasOrAdd(h1, h2);
  const known = all.slice(0, 1000).filter(([h1, h2]) => seen.hasOrAdd(h1, h2)).length;
  assert.ok(known < 30, `${known} of 1000`);
});
