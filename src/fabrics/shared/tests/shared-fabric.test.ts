import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { Batch, REGION_STRIDE, Scratch, swapped } from '../../../verbs/index.ts';
import { barrierOf } from '../barrier.ts';
import { MemorySource } from '../memory-source.ts';
import { SharedFabric } from '../shared-fabric.ts';

const REGION_BYTES = 256 * 1024;

function newFabric(): SharedFabric {
  return new SharedFabric(MemorySource.allocate(2, REGION_BYTES));
}

/** What a copy by floating-point elements could change: NaNs with every kind of payload. */
const DELICATE = [
  '7ff0000000000001',
  '7ff4000000000000',
  '7ff8000000000000',
  '7fffffffffffffff',
  'fff0000000000001',
  'fff8000000000000',
  'fff7ffff7fffffff',
  'ffffffffffffffff',
  'fff7fffffff7ffff',
  '7ff7ffffffffffff',
  '8000000000000000',
  '0000000000000001',
  '7ff0000000000000',
  'fff0000000000000',
  '8000000000000001',
  'fffffffffff7ffff',
];

test('READ and WRITE keep every bit pattern, for short copies and long ones', () => {
  const fabric = newFabric();
  const from = new Scratch(4096);
  const to = new Scratch(4096);
  // Often enough that the copying loop is compiled by every tier.
  for (let round = 0; round < 4000; round++) {
    const words = round % 20 === 0 ? 512 : 1 + (round % 40);
    for (let i = 0; i < words; i++) {
      const delicate = DELICATE[(round + i) % DELICATE.length];
      const high = (Math.random() * 2 ** 32) | 0;
      from.i64[i] = i % 3 === 0 ? BigInt.asIntN(64, BigInt(`0x${delicate}`)) : BigInt(high) << 20n;
      if (i % 3 === 1) from.i32[2 * i + 1] = 0x7ff00000 | (high & 0x8007ffff);
    }
    const address = 64 * (round % 100) + (round % 2) * REGION_STRIDE;
    to.u8.fill(0);
    fabric.execute(new Batch().write(address, 8 * words, from, 0).read(address, 8 * words, to, 0));
    for (let i = 0; i < words; i++) {
      if (to.i64[i] !== from.i64[i]) assert.equal(to.i64[i], from.i64[i], `word ${i}`);
    }
  }
});

test('WRITE of single bytes touches no neighbour', () => {
  const fabric = newFabric();
  const scratch = new Scratch(64);
  scratch.u8.fill(0x11);
  fabric.execute(new Batch().write(0, 64, scratch, 0));
  const bytes = new Scratch(64);
  bytes.u8.fill(0x22);
  fabric.execute(new Batch().write(3, 1, bytes, 0).write(9, 5, bytes, 1));
  fabric.execute(new Batch().read(0, 64, scratch, 0));
  const expected = new Uint8Array(64).fill(0x11);
  expected[3] = 0x22;
  expected.fill(0x22, 9, 14);
  assert.deepEqual(scratch.u8, expected);
});

test('CAS stores only over the expected word and always returns the old one', () => {
  const fabric = newFabric();
  const words = new Scratch(64);
  const compareAndSwap = (expected: bigint, desired: bigint) => {
    words.i64[0] = expected;
    words.i64[1] = desired;
    fabric.execute(new Batch().cas(128, words, 0));
    return { done: swapped(words, 0), old: words.i64[2] };
  };
  const large = -(2n ** 63n) + 5n;
  assert.deepEqual(compareAndSwap(0n, large), { done: true, old: 0n });
  assert.deepEqual(compareAndSwap(0n, 1n), { done: false, old: large });
  assert.deepEqual(compareAndSwap(large, 7n), { done: true, old: large });
  assert.deepEqual(compareAndSwap(7n, 7n), { done: true, old: 7n });
});

test('FAA adds and returns what was there, also downwards', () => {
  const fabric = newFabric();
  const words = new Scratch(64);
  const add = (addend: bigint) => {
    words.i64[0] = addend;
    fabric.execute(new Batch().faa(REGION_STRIDE + 8, words, 0));
    return words.i64[1];
  };
  assert.equal(add(5n), 0n);
  assert.equal(add(-7n), 5n);
  assert.equal(add(0n), -2n);
});

test('verbs of a batch are executed in order', () => {
  const fabric = newFabric();
  const words = new Scratch(128);
  words.i64.set([1n, 1n, 2n, 0n]);
  const batch = new Batch().write(0, 8, words, 0).cas(0, words, 8).read(0, 8, words, 64);
  fabric.execute(batch);
  assert.equal(swapped(words, 8), true);
  assert.equal(words.i64[8], 2n);
});

test('every batch counts one round trip, with its verbs and bytes', () => {
  const fabric = newFabric();
  const words = new Scratch(4096);
  fabric.execute(new Batch());
  const first = new Batch().read(0, 64, words, 0).read(64, 2048, words, 0).write(0, 8, words, 0);
  fabric.execute(first.cas(0, words, 0).faa(8, words, 0).faa(8, words, 0));
  fabric.execute(new Batch().read(0, 8, words, 0));
  fabric.execute(new Batch().write(1, 3, words, 0));
  fabric.execute(new Batch().read(0, 8, words, 0));
  assert.deepEqual(fabric.traffic.snapshot(), {
    roundTrips: 5,
    reads: 4,
    writes: 2,
    compareAndSwaps: 1,
    fetchAndAdds: 2,
    bytesRead: 64 + 2048 + 16,
    bytesWritten: 11,
  });
});

test('an address outside the pool is an error and no crash', () => {
  const fabric = newFabric();
  const words = new Scratch(4096);
  const reach = (address: number, bytes: number) => () =>
    fabric.execute(new Batch().read(address, bytes, words, 0));
  throwsCode('SW_POOL_CORRUPT', reach(REGION_BYTES, 8));
  throwsCode('SW_POOL_CORRUPT', reach(REGION_BYTES - 8, 16));
  throwsCode('SW_POOL_CORRUPT', reach(2 * REGION_STRIDE, 8));
  for (const word of [2 ** 52, 2 ** 53, 2 ** 63, 2 ** 64 - 2048]) {
    throwsCode('SW_POOL_CORRUPT', reach(word, 8));
    throwsCode('SW_POOL_CORRUPT', () => fabric.execute(new Batch().write(word, 8, words, 0)));
  }
  reach(REGION_BYTES - 8, 8)();
});

test('a window is the memory itself', () => {
  const fabric = newFabric();
  const words = new Scratch(64);
  words.u8.set([1, 2, 3, 4, 5, 6, 7, 8]);
  fabric.execute(new Batch().write(REGION_STRIDE + 64, 8, words, 0));
  const window = fabric.window(REGION_STRIDE + 66, 3);
  assert.deepEqual([...window], [3, 4, 5]);
  words.u8[3] = 99;
  fabric.execute(new Batch().write(REGION_STRIDE + 64, 8, words, 0));
  assert.equal(window[1], 99);
});

test('with a barrier no verb stands beside another one, and none without', () => {
  const log: string[] = [];
  const source = MemorySource.allocate(1, REGION_BYTES);
  const fabric = new SharedFabric(source, () => log.push('barrier'));
  const scratch = new Scratch(64);
  const region = fabric.region(0);
  const spied = new Proxy(region.f64, {
    get(words, name) {
      log.push('load');
      return Reflect.get(words, name, words);
    },
    set(words, name, value) {
      log.push('store');
      return Reflect.set(words, name, value, words);
    },
  });
  Object.defineProperty(region, 'f64', { value: spied });
  const read = (at: number) => new Batch().read(at, 8, scratch, 0);
  fabric.execute(read(0).read(8, 8, scratch, 8).write(16, 8, scratch, 0).write(24, 8, scratch, 8));
  fabric.execute(read(0).cas(32, scratch, 0).read(8, 8, scratch, 0));
  fabric.window(0, 8);
  const expected = 'barrier load barrier load barrier store barrier store';
  assert.equal(log.join(' '), `${expected} barrier load barrier barrier load barrier`);
});

test('the barrier of ARM is a function that V8 compiles; other processors are refused', () => {
  assert.equal(barrierOf('x64'), undefined);
  assert.equal(barrierOf('arm64')?.(), undefined);
  throwsCode('SW_UNSUPPORTED', () => barrierOf('riscv64'));
});
