import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EPOCHS_TO_RIPEN, Limbo } from '../limbo.ts';

function drained(limbo: Limbo, epoch: number, max = Number.POSITIVE_INFINITY): number[] {
  const found: number[] = [];
  const count = limbo.drain(epoch, max, (address) => found.push(address));
  assert.equal(count, found.length);
  return found;
}

test('a block comes out three epochs after its tag and not earlier, in order', () => {
  const limbo = new Limbo();
  for (const [address, tag] of [
    [10, 5],
    [20, 5],
    [30, 6],
    [40, 9],
  ]) {
    limbo.push(address, address + 1, tag);
  }
  assert.equal(limbo.length, 4);
  assert.equal(limbo.floor, 5);
  assert.deepEqual(drained(limbo, 5 + EPOCHS_TO_RIPEN - 1), []);
  assert.deepEqual(drained(limbo, 5 + EPOCHS_TO_RIPEN), [10, 20]);
  assert.equal(limbo.floor, 6);
  assert.deepEqual(drained(limbo, 100, 1), [30]);
  assert.deepEqual(drained(limbo, 100), [40]);
  assert.equal(limbo.floor, 0);
  assert.equal(limbo.length, 0);
});

test('the units come with the address', () => {
  const limbo = new Limbo();
  limbo.push(64, 7, 1);
  limbo.drain(9, 10, (address, units) => assert.deepEqual([address, units], [64, 7]));
});

test('order holds over many blocks, while old ones are dropped from memory', () => {
  const limbo = new Limbo();
  const expected: number[] = [];
  let next = 0;
  for (let epoch = 1; epoch < 300; epoch++) {
    for (let i = 0; i < 100; i++) limbo.push(next++, 1, epoch);
    const found = drained(limbo, epoch, 90);
    for (const address of found) assert.equal(address, expected.push(address) - 1);
    if (epoch > EPOCHS_TO_RIPEN) assert.ok(Math.floor(found[0] / 100) + 1 <= epoch - 3);
  }
  assert.equal(limbo.length, next - expected.length);
  assert.equal(limbo.floor, Math.floor(expected.length / 100) + 1);
});
