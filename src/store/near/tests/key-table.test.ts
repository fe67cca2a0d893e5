import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import { KeyTable, NONE, PROBES_MAX } from '../key-table.ts';

for (const expected of [0, 3000]) {
  test(`a table for ${expected} keys agrees with a Map, while it grows and shrinks`, () => {
    agreesWithMap(new KeyTable(expected));
  });
}

function agreesWithMap(table: KeyTable): void {
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
}

/**
 * Strings of one hash, whatever the seed. The bit that differs in the first half survives the odd
 * multiplication in the highest place, and the second half takes it back after the rotation.
 */
function colliding(parts: number): string[] {
  let strings = [''];
  for (let i = 0; i < parts; i++) {
    strings = strings.flatMap((one) => [`${one}AAAAAAAA`, `${one}A\u8041AA\u1041AAA`]);
  }
  return strings;
}

test('keys of one hash are found up to a bound, and then not at all', () => {
  const table = new KeyTable();
  table.add('other', 0);
  const strings = colliding(10);
  strings.forEach((string, i) => {
    table.add(string, i + 1);
  });
  const found = strings.filter((string) => table.find(string) !== NONE);
  assert.ok(found.length > PROBES_MAX / 2 && found.length <= PROBES_MAX, `${found.length}`);
  for (const string of found) assert.equal(table.find(string), strings.indexOf(string) + 1);
  assert.equal(table.find('other'), 0);
  for (let i = 1; i <= strings.length; i++) table.remove(i);
  assert.equal(table.size, 1);
  assert.deepEqual(
    strings.filter((string) => table.find(string) !== NONE),
    [],
  );
  assert.equal(table.find('other'), 0);
});
