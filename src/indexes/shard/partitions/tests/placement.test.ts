import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyHash } from '../../../../records/hash.ts';
import { codeOf } from '../../../../store/tests/support/codes.ts';
import { capacityOf, Placement, partitionOf } from '../placement.ts';

const PARTITIONS = 1024;
const loads = (placement: Placement) => {
  const count = new Map<number, number>();
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const node = placement.nodeOf(partition);
    count.set(node, (count.get(node) ?? 0) + 1);
  }
  return count;
};
const nodes = (count: number) => Array.from({ length: count }, (_, i) => 10 * i + 1);

function moves(before: Placement, after: Placement): number[] {
  const all = Array.from({ length: PARTITIONS }, (_, partition) => partition);
  return all.filter((partition) => before.nodeOf(partition) !== after.nodeOf(partition));
}

test('no memory node holds more than its share and a quarter', () => {
  for (let count = 1; count <= 20; count++) {
    const load = loads(new Placement(nodes(count), PARTITIONS));
    const total = [...load.values()].reduce((sum, each) => sum + each, 0);
    assert.equal(total, PARTITIONS);
    for (const each of load.values()) assert.ok(each <= capacityOf(count, PARTITIONS));
  }
});

test('a node that comes or goes moves about its own share', () => {
  for (let count = 2; count <= 16; count++) {
    const before = new Placement(nodes(count), PARTITIONS);
    const after = new Placement(nodes(count + 1), PARTITIONS);
    const moved = moves(before, after);
    assert.ok(moved.some((partition) => after.nodeOf(partition) === 10 * count + 1));
    assert.ok(moved.length <= 2.5 * (PARTITIONS / count), `${moved.length} of ${count}`);
  }
});

test('keys are spread over the partitions, and the order of the nodes does not matter', () => {
  const placement = new Placement([1, 2, 3], 64);
  const turned = new Placement([3, 1, 2], 64);
  const counts = new Array(64).fill(0);
  const hash = new KeyHash();
  const words = new Int32Array(8);
  for (let i = 0; i < 6400; i++) {
    words[0] = i;
    hash.compute(words, 0, 4, 7);
    counts[partitionOf(hash, 64)]++;
  }
  assert.ok(Math.min(...counts) > 50 && Math.max(...counts) < 160);
  const all = Array.from({ length: 64 }, (_, partition) => partition);
  assert.ok(all.every((partition) => placement.nodeOf(partition) === turned.nodeOf(partition)));
  assert.equal(
    codeOf(() => new Placement([1, 1], 8)),
    'SW_INVALID_ARGUMENT',
  );
});
