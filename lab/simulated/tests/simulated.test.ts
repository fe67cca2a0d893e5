import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../src/errors.ts';
import { Prng } from '../../../src/random/prng.ts';
import {
  Batch,
  type Operation,
  REGION_STRIDE,
  Scratch,
  swapped,
} from '../../../src/verbs/index.ts';
import { postCall } from '../call.ts';
import { SimulatedFabric } from '../fabric.ts';
import { addLoop, newMemory, newNetwork, single } from './support/rig.ts';

/** Clients that add to counters and read them, over two memory nodes. */
function addUp(seed: number, rounds = 300) {
  const network = newNetwork({ memoryNodes: 2, computeNodes: 2, seed });
  const prng = Prng.fromSeed(seed);
  const loops = Array.from({ length: 6 }, (_, client) => {
    let left = rounds;
    return addLoop(network, client % 2, 3, () => (left-- > 0 ? addOne(prng) : undefined));
  });
  function* addOne(from: Prng): Operation<number> {
    const batch = new Batch();
    const words = new Scratch(256);
    const address = REGION_STRIDE * from.below(2) + 8 * from.below(4);
    words.i64[0] = 1n;
    yield batch.read(address - (address % 64), 128, words, 64).faa(address, words, 0);
    return words.i32[2];
  }
  network.run();
  return { network, loops, rounds: 6 * rounds };
}

test('one seed gives one run, another seed another', () => {
  const trace = (seed: number) =>
    addUp(seed).loops.map((loop) => loop.map(({ began, ended, result }) => [began, ended, result]));
  assert.deepEqual(trace(3), trace(3));
  assert.notDeepEqual(trace(3), trace(4));
});

test('every posted verb is answered once, and every addition counts', () => {
  const { network, loops, rounds } = addUp(5);
  const ended = loops.reduce((sum, { length }) => sum + length, 0);
  assert.equal(ended, rounds);
  assert.equal(network.posted, 2 * rounds);
  assert.equal(network.answered, network.posted);
  const counters = [0, REGION_STRIDE].flatMap((node) => [
    ...new BigInt64Array(network.memory.window(node, 32).slice().buffer),
  ]);
  assert.equal(
    counters.reduce((sum, value) => sum + value, 0n),
    BigInt(rounds),
  );
});

test('a verb outside of the memory is thrown into its operation, which may go on', () => {
  const network = newNetwork();
  function* stray(): Operation<string> {
    const scratch = new Scratch(64);
    scratch.u8.fill(7);
    try {
      yield new Batch()
        .write(0, 8, scratch, 0)
        .read(REGION_STRIDE, 8, scratch, 0)
        .write(64, 8, scratch, 0);
    } catch (error) {
      assert.ok(error instanceof StepwellError && error.code === 'SW_POOL_CORRUPT');
      yield new Batch().read(0, 64, scratch, 0);
      return `went on with ${scratch.u8[0]}`;
    }
    return 'heard nothing';
  }
  function* deaf(): Operation<void> {
    yield* single((batch, scratch) => batch.read(2 ** 30, 8, scratch, 0));
  }
  const operations = [stray(), deaf()];
  const ended = addLoop(network, 0, 1, () => operations.shift());
  network.run();
  assert.equal(ended[0].result, 'went on with 7');
  assert.equal(ended[0].error, undefined);
  assert.ok(ended[1].error instanceof StepwellError);
  assert.equal(network.memory.window(64, 1)[0], 0, 'what stood behind it was not executed');
  assert.equal(network.answered, network.posted);
});

test('a pause lets virtual time pass, and the verbs behind it wait for its end', () => {
  const network = newNetwork();
  function* wait(): Operation<number> {
    const scratch = new Scratch(64);
    yield new Batch().pause(50, scratch).read(0, 8, scratch, 0);
    return scratch.u8[0];
  }
  function* write(): Operation<void> {
    yield* single((batch, scratch) => {
      scratch.u8[0] = 9;
      batch.write(0, 8, scratch, 0);
    });
  }
  const operations = [wait(), write()];
  const ended = addLoop(network, 0, 2, () => operations.shift());
  network.run();
  const [second, first] = ended;
  assert.equal(first.result, 9);
  assert.ok(first.ended - first.began > 50_000 && first.ended - first.began < 60_000);
  assert.ok(second.ended < 10_000);
});

test('a call runs on the memory node and brings its answer', () => {
  const network = newNetwork();
  network.memory.handlers[0] = ({ i32 }, offset) => {
    i32[offset >> 2] *= 2;
  };
  const operations = [
    single((batch, scratch) => {
      scratch.i32[2] = 21;
      postCall(batch, 0, 8, scratch, 8);
    }),
  ];
  const ended = addLoop(network, 0, 1, () => operations.shift());
  network.run();
  assert.equal((ended[0].result as Scratch).i32[2], 42);
});

test('without time the fabric does the same to the same bytes', () => {
  const memory = newMemory(2);
  const fabric = new SimulatedFabric(memory);
  const words = new Scratch(256);
  words.u8.set([1, 2, 3, 4, 5]);
  fabric.execute(new Batch().write(3, 5, words, 0).read(0, 16, words, 64));
  assert.deepEqual([...words.u8.subarray(64, 72)], [0, 0, 0, 1, 2, 3, 4, 5]);
  words.i64.set([5n, 0n, -7n, 0n]);
  fabric.execute(new Batch().faa(REGION_STRIDE, words, 0).faa(REGION_STRIDE, words, 16));
  assert.equal(new BigInt64Array(memory.window(REGION_STRIDE, 8).slice().buffer)[0], -2n);
  words.i64.set([-2n, 2n ** 40n, 0n]);
  fabric.execute(new Batch().cas(REGION_STRIDE, words, 0));
  assert.ok(swapped(words, 0));
  fabric.execute(new Batch().cas(REGION_STRIDE, words, 0));
  assert.ok(!swapped(words, 0));
  assert.equal(words.i64[2], 2n ** 40n);
  const stray = new Batch().read(REGION_STRIDE * 2, 8, words, 0);
  assert.throws(() => fabric.execute(stray), StepwellError);
  assert.equal(fabric.traffic.snapshot().roundTrips, 5);
});
