import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RaceParts } from '../../../src/indexes/race/parts.ts';
import { allocateSubtable, writeSubtable } from '../../../src/indexes/race/split.ts';
import { eachReachable, sweep } from '../../../src/indexes/sweep.ts';
import { PartsWalk } from '../../../src/indexes/traversal/walk.ts';
import { unpackChunk } from '../../../src/pool/memory/chunk-word.ts';
import type { Address, Batch, Operation } from '../../../src/verbs/index.ts';
import { type Client, Stage, step } from './support/stage.ts';

/** The first half of a split: the child is in the directory, and no bucket has moved. */
function* publishChild({ index: { table } }: Client, parent: Address): Operation<Address> {
  yield* table.directory.deepen(0);
  const child = yield* allocateSubtable(table.allocator, table.catalog, table.geometry);
  yield* writeSubtable(table.geometry, child, { parent, suffix: 1, depth: 1, ready: false });
  assert.ok(yield* table.directory.link(0, 0, child));
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

/** A client claims blocks ahead, more each time, and dies with most of the last ones unused. */
function dieWithBlocks(stage: Stage): void {
  const dead = stage.client();
  for (let i = 0; i < 130; i++) stage.put(dead, `from the dead ${i}`);
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
  const { table } = client.index;
  const walk = new PartsWalk(new RaceParts(table), table.records, request);
  let seen = 0;
  while (!walk.done) client.pool.run(walk.next(() => seen++));
  assert.equal(seen, 6);
  const megabytes = request.incoming.u8.length / 2 ** 20;
  assert.ok(megabytes < 2, `${megabytes} MB for 6 keys of 20 KB`);
});

/** The blocks of the dead client's 130 records and of the table; it had claimed 100 more. */
const CLAIMED_AFTERWARDS = 160;

/** A sweeper that lives through `steps` of its doorbells; a second one begins, and it dies. */
function dieSweeping(steps: number): boolean {
  const stage = new Stage();
  const [first, second] = [stage.client(), stage.client()];
  dieWithBlocks(stage);
  const sweeping = sweep(first.pool, first.index);
  let done = false;
  for (let i = 0; i < steps && !done; i++) done = step(first, sweeping) !== undefined;
  const waiting = sweep(second.pool, second.index);
  for (let i = 0; i < 12; i++) assert.equal(step(second, waiting), undefined);
  stage.kill(first);
  let brought: number | undefined;
  while (brought === undefined) brought = step(second, waiting);
  const left = stage.claimedBlocks(second);
  assert.ok(left < CLAIMED_AFTERWARDS, `dead after ${steps} doorbells: ${left} blocks are lost`);
  return done;
}

test('a sweeper may die anywhere: the one that waits for it sweeps', () => {
  let steps = 0;
  while (!dieSweeping(steps)) steps++;
  assert.ok(steps > 20);
});

test('who finds the pool full while another client sweeps waits for it', () => {
  const stage = new Stage();
  const [first, second] = [stage.client(), stage.client()];
  dieWithBlocks(stage);
  const sweeping = sweep(first.pool, first.index);
  for (let i = 0; i < 12; i++) assert.equal(step(first, sweeping), undefined);
  const waiting = sweep(second.pool, second.index);
  let brought: (number | undefined)[] = [undefined, undefined];
  while (brought.includes(undefined)) {
    brought = [brought[0] ?? step(first, sweeping), brought[1] ?? step(second, waiting)];
  }
  assert.ok(brought[0] !== undefined && brought[0] > 100);
  assert.equal(brought[1], 1);
});

test('a client that is declared dead while it waits for its turn sweeps nothing', () => {
  const stage = new Stage();
  const [first, second, third] = [stage.client(), stage.client(), stage.client()];
  dieWithBlocks(stage);
  const sweeping = sweep(first.pool, first.index);
  for (let i = 0; i < 20; i++) assert.equal(step(first, sweeping), undefined);
  const waiting = sweep(second.pool, second.index);
  for (let i = 0; i < 12; i++) assert.equal(step(second, waiting), undefined);
  stage.kill(first);
  stage.kill(second);
  third.pool.recoverGone();
  const goOn = () => {
    for (let i = 0; i < 10_000 && step(second, waiting) === undefined; i++);
  };
  assert.throws(goOn, { code: 'SW_REVOKED' });
  const words = third.pool.run(third.pool.chunks.words()).map(([, word]) => unpackChunk(word));
  const owners = words.map(({ owner }) => owner);
  assert.ok(!owners.includes(second.pool.membership.id), `${owners}`);
  assert.ok(stage.sweep(third) > 100);
});

test('after a sweep that fails the next one brings everything back', () => {
  const stage = new Stage();
  const [first, second] = [stage.client(), stage.client()];
  dieWithBlocks(stage);
  const failing = Object.create(first.index, {
    parts: {
      value: () => {
        throw new Error('no walk');
      },
    },
  });
  assert.throws(() => stage.sweep({ ...first, index: failing }), /no walk/);
  assert.ok(stage.sweep(second) > 100);
});

test('a sweep costs few doorbells beside its walk, however many chunks there are', () => {
  const stage = new Stage();
  const dead = stage.client();
  const sweeper = stage.client();
  for (let i = 0; stage.usedChunks(dead) < 55; i++) stage.put(dead, `k${i}`, 'v'.repeat(15_000));
  stage.kill(dead);
  const doorbellsOf = (operation: Iterator<Batch, unknown>) => {
    let doorbells = 0;
    for (let next = operation.next(); !next.done; next = operation.next()) {
      sweeper.pool.fabric.execute(next.value);
      doorbells++;
    }
    return doorbells;
  };
  const walk = doorbellsOf(eachReachable(sweeper.index, () => {}));
  const whole = doorbellsOf(sweep(sweeper.pool, sweeper.index));
  assert.ok(walk > 50 && whole - walk < 50, `${whole}, the walk ${walk}`);
});
