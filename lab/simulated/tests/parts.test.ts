import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../src/random/prng.ts';
import { EventQueue } from '../event-queue.ts';
import { Histogram } from '../histogram.ts';
import { Server, ServerGroup } from '../server.ts';
import { Timeline } from '../timeline.ts';

test('events come by time, those of one time as they were pushed', () => {
  const queue = new EventQueue();
  const prng = Prng.fromSeed(1);
  const pushed: { time: number; owner: number; row: number; part: number }[] = [];
  const popped: typeof pushed = [];
  for (let i = 0; i < 5000; i++) {
    const event = { time: prng.below(50), owner: i, row: i % 65_536, part: prng.below(65_536) };
    pushed.push(event);
    queue.push(event.time, i % 8, event.owner, event.row, event.part);
  }
  while (queue.pop()) {
    assert.equal(queue.kind, queue.owner % 8);
    popped.push({ time: queue.time, owner: queue.owner, row: queue.row, part: queue.part });
  }
  pushed.sort((a, b) => a.time - b.time || a.owner - b.owner);
  assert.deepEqual(popped, pushed);
});

test('a queue that is filled and emptied by turns stays in order', () => {
  const queue = new EventQueue();
  const prng = Prng.fromSeed(2);
  let now = 0;
  for (let i = 0; i < 20_000; i++) {
    if (queue.length === 0 || prng.below(2) === 0) queue.push(now + prng.below(1000), 0, i);
    else {
      assert.ok(queue.pop() && queue.time >= now);
      now = queue.time;
    }
  }
});

test('a server takes one after the other; a group takes as many at a time as it has', () => {
  const server = new Server();
  assert.deepEqual([server.serve(0, 10), server.serve(5, 10), server.serve(50, 10)], [10, 20, 60]);
  assert.equal(server.busyNs, 30);
  const group = new ServerGroup(2);
  assert.deepEqual([group.serve(0, 10), group.serve(0, 10), group.serve(1, 10)], [10, 10, 20]);
});

test('the receiving end of an idle link adds nothing, a busy one queues', () => {
  const link = new Server();
  assert.equal(link.receive(100, 10), 100);
  assert.equal(link.receive(101, 10), 110);
  assert.equal(link.receive(200, 10), 200);
});

test('quantiles are right to a part in 32', () => {
  const histogram = new Histogram();
  assert.ok(Number.isNaN(histogram.quantile(0.5)));
  for (let i = 1; i <= 100_000; i++) histogram.record(i);
  for (const share of [0.01, 0.5, 0.99, 0.999]) {
    const off = Math.abs(histogram.quantile(share) / (share * 100_000) - 1);
    assert.ok(off < 1 / 32, `${share}: ${off}`);
  }
  assert.equal(histogram.mean, 50_000.5);
  assert.equal(histogram.quantile(1), 100_000);
});

test('a timeline counts by interval', () => {
  const timeline = new Timeline(1e6, 5);
  for (const at of [5, 6, 1e6 + 4, 1e6 + 5, 3e6 + 5]) timeline.record(at);
  assert.deepEqual(timeline.rates(), [3000, 1000, 0, 1000]);
});
