/** Waits for a change of a word: each ends, and what stands behind one is read where it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOf, Batch, type Operation, Scratch } from '../../../src/verbs/index.ts';
import { CONNECTX5 } from '../model.ts';
import type { Place } from '../network.ts';
import { addLoop, newNetwork } from './support/rig.ts';

const WORD = 64;
const ELSEWHERE = addressOf(1, 8);
const MICROSECONDS = 20;

/** Waits while the word is 0, then READs it and another. */
function* waiting(into: Scratch, second: number): Operation<Scratch> {
  const wait = new Batch().awaitChange(WORD, MICROSECONDS, into, 16);
  yield wait.read(WORD, 8, into, 0).read(second, 8, into, 8);
  return into;
}

function* writing(value: bigint, address: number): Operation<void> {
  const word = new Scratch(8);
  word.i64[0] = value;
  yield new Batch().write(address, 8, word, 0);
}

/** How long a wait from there takes, in nanoseconds, if nobody else does anything. */
function alone(place: Place, second: number, memoryNodes = 2): number {
  const network = newNetwork({ memoryNodes });
  const operations: Operation<unknown>[] = [waiting(new Scratch(24), second)];
  const ended = addLoop(network, place, 1, () => operations.shift());
  network.run();
  assert.equal(ended.length, 1);
  assert.equal(network.answered, network.posted);
  return ended[0].ended - ended[0].began;
}

test('a wait that no change ends is over when its time is up', () => {
  assert.ok(alone(0, WORD + 8, 1) >= 1000 * MICROSECONDS);
});

test('a READ on another node, behind a wait, is a message of its own', () => {
  assert.ok(alone(0, ELSEWHERE) - alone(0, WORD + 8) > CONNECTX5.roundTripNs / 2);
});

test('a thread beside the memory does not wait; it waits for a word of another node', () => {
  assert.ok(alone({ memoryNode: 0 }, WORD + 8) < 1000 * MICROSECONDS);
  assert.ok(alone({ memoryNode: 1 }, WORD + 8) >= 1000 * MICROSECONDS);
  assert.ok(alone({ memoryNode: 1 }, ELSEWHERE) >= 1000 * MICROSECONDS);
});

test('a change ends a wait before its time', () => {
  const network = newNetwork({});
  const into = new Scratch(24);
  const operations: Operation<unknown>[] = [waiting(into, WORD + 8)];
  const ended = addLoop(network, 0, 1, () => operations.shift());
  const changes: Operation<unknown>[] = [writing(9n, WORD + 8), writing(7n, WORD)];
  addLoop(network, 0, 1, () => changes.shift());
  network.run();
  assert.ok(ended[0].ended - ended[0].began < 1000 * MICROSECONDS);
  assert.deepEqual([...into.i64.subarray(0, 2)], [7n, 9n]);
});
