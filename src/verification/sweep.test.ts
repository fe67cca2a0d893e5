import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allocateSubtable, writeSubtable } from '../indexes/race/split.ts';
import { RaceWalk, WALK_START } from '../indexes/race/walk.ts';
import { sweep } from '../indexes/sweep.ts';
import type { Address, Operation } from '../verbs/index.ts';
import { type Client, Stage } from './test-support/stage.ts';

/** The first half of a split: the child is in the directory, and no bucket has moved. */
function* publishChild({ index: { table } }: Client, parent: Address): Operation<Address> {
  yield* table.directory.deepen(0);
  const child = yield* allocateSubtable(table.allocator, table.catalog, table.geometry);
  yield* writeSubtable(table.geometry, child, { parent, suffix: 1, depth: 1, ready: false });
  assert.ok(yield* table.directory.publish(0, 0, child));
  return child;
}

test('a sweep keeps the child of a split whose splitter died before it moved a bucket', () => {
  const stage = new Stage();
  const sweeper = stage.client();
  const splitter = stage.client();
  splitter.pool.enter();
  const parent = splitter.index.table.directory.lookup(0);
  const child = splitter.pool.run(publishChild(splitter, parent));
  stage.kill(splitter);
  stage.sweep(sweeper);
  const { subtableUnits } = sweeper.index.table.geometry;
  assert.ok(stage.isClaimed(sweeper, child, subtableUnits), 'the directory leads to a free block');
});

/** A client claims a batch of blocks, uses one of them, and dies. */
function dieWithBlocks(stage: Stage): void {
  const dead = stage.client();
  stage.put(dead, 'from the dead');
  stage.kill(dead);
}

test('a sweep that nothing hinders brings back what a dead client had claimed', () => {
  const stage = new Stage();
  const sweeper = stage.client();
  dieWithBlocks(stage);
  assert.ok(stage.sweep(sweeper) > 100);
});

test('a sweep succeeds although the sweeper itself has retired blocks', () => {
  const stage = new Stage();
  const sweeper = stage.client();
  dieWithBlocks(stage);
  stage.put(sweeper, 'a');
  stage.put(sweeper, 'a');
  assert.ok(sweeper.pool.reclamation.retired > 0);
  assert.ok(stage.sweep(sweeper) > 100);
});

test('a sweep succeeds although another client has gone idle with retired blocks', () => {
  const stage = new Stage();
  const sweeper = stage.client();
  const other = stage.client();
  dieWithBlocks(stage);
  stage.put(other, 'a');
  stage.put(other, 'a');
  // What Pool does when the event loop has turned, and 25 ms later.
  other.pool.run(other.pool.reclamation.goOffline());
  sweeper.pool.recoverGone();
  other.pool.run(other.pool.reclamation.collect());
  assert.equal(other.pool.reclamation.retired, 0);
  assert.ok(stage.sweep(sweeper) > 100);
});

test('a sweep succeeds although another client is busy, if that one passes quiescent points', () => {
  const stage = new Stage();
  const sweeper = stage.client();
  const other = stage.client();
  dieWithBlocks(stage);
  sweeper.pool.recoverGone();
  other.pool.run(other.pool.reclamation.quiesce());
  const operation = sweep(sweeper.pool, sweeper.index);
  for (;;) {
    const step = operation.next();
    if (step.done) {
      assert.ok(step.value > 100);
      return;
    }
    sweeper.pool.fabric.execute(step.value);
    other.pool.run(other.pool.reclamation.quiesce());
  }
});

test('a walk over long keys needs memory for one group of them', () => {
  const stage = new Stage();
  const client = stage.client();
  for (let i = 0; i < 6; i++) stage.put(client, String(i).padStart(20_000, 'k'));
  const request = client.index.newRequest();
  const walk = new RaceWalk(client.index.table, request, { ...WALK_START });
  let seen = 0;
  while (walk.position !== undefined) client.pool.run(walk.next(() => seen++));
  assert.equal(seen, 6);
  const megabytes = request.incoming.u8.length / 2 ** 20;
  assert.ok(megabytes < 2, `${megabytes} MB for 6 keys of 20 KB`);
});
