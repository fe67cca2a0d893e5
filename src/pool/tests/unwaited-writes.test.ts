import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Batch,
  type Completion,
  type Operation,
  type RemoteFabric,
  runRemote,
  Scratch,
  TrafficCounters,
} from '../../verbs/index.ts';
import { UnwaitedWrites } from '../unwaited-writes.ts';

/** Keeps what is posted until the test lets it happen. */
class HeldFabric implements RemoteFabric {
  readonly traffic = new TrafficCounters();
  readonly posted: { batch: Batch; completion: Completion }[] = [];

  post(batch: Batch, completion: Completion): void {
    this.posted.push({ batch, completion });
  }

  complete(count = this.posted.length, error?: unknown): void {
    for (const { completion } of this.posted.splice(0, count)) completion.completed(error);
  }
}

function* writes(unwaited: UnwaitedWrites, count: number): Operation<string> {
  for (let i = 0; i < count; i++) yield* unwaited.word(64 * i, i, 0);
  return 'done';
}

test('an operation goes on before its unwaited WRITE is executed', async () => {
  const fabric = new HeldFabric();
  const unwaited = new UnwaitedWrites();
  assert.equal(await runRemote(fabric, writes(unwaited, 3)), 'done');
  assert.deepEqual(
    fabric.posted.map(({ batch }) => [batch.address[0], batch.scratch[0].i32[0]]),
    [
      [0, 0],
      [64, 1],
      [128, 2],
    ],
    'each has words of its own',
  );
  assert.equal(unwaited.underWay, 3);
  let isSettled = false;
  const settled = unwaited.settled()?.then(() => {
    isSettled = true;
  });
  fabric.complete(2);
  await Promise.resolve();
  assert.equal(isSettled, false);
  // One that fails is no trouble of any operation.
  fabric.complete(1, new Error('lost'));
  await settled;
  assert.equal(isSettled, true);
  assert.equal(unwaited.settled(), undefined);
});

test('no more than 256 are under way: a further one is waited for', async () => {
  const fabric = new HeldFabric();
  const unwaited = new UnwaitedWrites();
  const running = runRemote(fabric, writes(unwaited, 300));
  assert.equal(fabric.posted.length, 257);
  assert.equal(unwaited.underWay, 256);
  const last = fabric.posted.at(-1);
  assert.equal(last?.batch.isWaitedFor, true);
  let ended = false;
  running.then(() => {
    ended = true;
  });
  await new Promise(setImmediate);
  assert.equal(ended, false);
  while (!ended) {
    fabric.complete();
    await new Promise(setImmediate);
  }
  fabric.complete();
  assert.equal(unwaited.underWay, 0);
});

test('a batch of another kind is waited for as ever', async () => {
  const fabric = new HeldFabric();
  const unwaited = new UnwaitedWrites();
  const order: string[] = [];
  const operation = function* (): Operation<void> {
    yield* unwaited.word(0, 1, 2);
    order.push('posted');
    yield new Batch().read(0, 8, new Scratch(8), 0);
    order.push('read');
  };
  const running = runRemote(fabric, operation());
  assert.deepEqual(order, ['posted']);
  assert.equal(fabric.posted.length, 2);
  fabric.complete();
  await running;
  assert.deepEqual(order, ['posted', 'read']);
});
