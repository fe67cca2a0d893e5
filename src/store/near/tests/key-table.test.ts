import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import { KeyTable, NONE } from '../key-table.ts';

test('a table of keys agrees with a Map, while it grows and shrinks', () => {
  const table = new KeyTable();
  const model = new Map<string, number>();
  const free: number[] = [];
  const prng = Prng.fromSeed(3);
  for (let step = 0; step < 40_000; step++) {
    // First more keys come than go, then the other way round.
    const isGrowing = step % 20_000 < 10_000;
    const key = `${'größe '.repeat(prng.below(3))}${prng.below(4000)}`;
    const number = table.find(key);
    assert.equal(number, model.get(key) ?? NONE);
    if (number === NONE && prng.below(4) > (isGrowing ? 0 : 2)) {
      const next = free.pop() ?? model.size;
      table.add(key, next);
      model.set(key, next);
    } else if (number !== NONE && prng.below(4) > (isGrowing ? 2 : 0)) {
      table.remove(number);
      model.delete(key);
      free.push(number);
    }
    assert.equal(table.size, model.size);
  }
  for (const [key, number] of model) assert.equal(table.find(key), number);
  assert.ok(model.size > 100);
});
