import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressOf,
  Batch,
  CAS,
  copyWord,
  type Fabric,
  highHalf,
  lowHalf,
  type Operation,
  offsetOf,
  READ,
  type RemoteFabric,
  readInteger,
  regionOf,
  run,
  runRemote,
  runWithin,
  Scratch,
  setWord,
  swapped,
  TrafficCounters,
  writeInteger,
} from '../index.ts';

/** Counts what a runner executes and does nothing. */
class CountingFabric implements Fabric {
  readonly traffic = new TrafficCounters();
  executed = 0;

  execute(): void {
    this.executed++;
  }

  window(): Uint8Array {
    return new Uint8Array(0);
  }
}

function* steps(count: number, result: string): Operation<string> {
  const batch = new Batch();
  for (let i = 0; i < count; i++) yield batch;
  return result;
}

test('an address is a region and an offset', () => {
  for (const region of [0, 1, 2, 1023]) {
    for (const offset of [0, 64, 2 ** 20, 2 ** 31 - 64]) {
      const address = addressOf(region, offset);
      assert.ok(Number.isSafeInteger(address));
      assert.equal(regionOf(address), region);
      assert.equal(offsetOf(address), offset);
    }
  }
});

test('a word that can be no address names a region of no pool, never another one', () => {
  for (const word of [2 ** 53, 2 ** 63, 2 ** 63 + 2 ** 32, 2 ** 64 - 2048]) {
    assert.equal(regionOf(word), 2 ** 22);
  }
});

test('words keep 64-bit patterns and integers below 2^53', () => {
  const scratch = new Scratch(64);
  for (const value of [0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 40 + 5, 2 ** 53 - 1]) {
    writeInteger(scratch, 8, value);
    assert.equal(readInteger(scratch, 8), value);
    assert.equal(scratch.i64[1], BigInt(value));
  }
  setWord(scratch, 16, -1, 0x7fffffff);
  copyWord(scratch, 16, 24);
  assert.equal(lowHalf(scratch, 24), -1);
  assert.equal(highHalf(scratch, 24), 0x7fffffff);
});

test('swapped tells whether the old value was the expected one', () => {
  const scratch = new Scratch(64);
  setWord(scratch, 0, 5, 6);
  for (const [low, high] of [
    [5, 6],
    [5, 7],
    [4, 6],
    [0, 0],
  ]) {
    setWord(scratch, 16, low, high);
    assert.equal(swapped(scratch, 0), low === 5 && high === 6);
  }
});

test('a scratch has room for what was asked, in whole lines', () => {
  const scratch = new Scratch(1);
  assert.equal(scratch.u8.length, 64);
  scratch.u8[3] = 7;
  assert.equal(scratch.buffer[3], 7);
  assert.equal(scratch.i32[0], 7 << 24);
  scratch.ensure(64);
  assert.equal(scratch.u8[3], 7, 'nothing to do');
  scratch.ensure(65);
  assert.ok(scratch.u8.length >= 128);
});

test('a batch grows and keeps its verbs in order', () => {
  const batch = new Batch();
  const scratch = new Scratch(2400);
  for (let round = 0; round < 2; round++) {
    batch.clear();
    for (let i = 0; i < 100; i++) batch.cas(64 * i, scratch, 24 * i);
    batch.read(2 ** 52, 8, scratch, 0);
    assert.equal(batch.length, 101);
    for (let i = 0; i < 100; i++) {
      assert.equal(batch.kind[i], CAS);
      assert.equal(batch.address[i], 64 * i);
      assert.equal(batch.offset[i], 24 * i);
    }
    assert.equal(batch.kind[100], READ);
    assert.equal(batch.address[100], 2 ** 52);
  }
});

test('run executes each step', () => {
  const fabric = new CountingFabric();
  assert.equal(run(fabric, steps(3, 'done')), 'done');
  assert.equal(fabric.executed, 3);
});

test('parts of an operation that end at once do not pile up on the stack', async () => {
  const fabric: RemoteFabric = { traffic: new TrafficCounters(), post: () => assert.fail() };
  function* fails(): Operation<never> {
    throw new Error(yield* steps(0, 'planted'));
  }
  function* whole(): Operation<[ended: number, failed: number]> {
    const sums: [number, number] = [0, 0];
    for (let i = 0; i < 20_000; i++) {
      sums[0] += (yield* runWithin(fabric, steps(0, 'x'))).length;
      try {
        yield* runWithin(fabric, fails());
      } catch (error) {
        if (String(error) === 'Error: planted') sums[1]++;
      }
    }
    return sums;
  }
  assert.deepEqual(await runRemote(fabric, whole()), [20_000, 20_000]);
});
