import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  addressOf,
  Batch,
  type Completion,
  type Operation,
  runRemote,
  Scratch,
} from '../../../../verbs/index.ts';
import { connectTo, execute, REGION_BYTES, scratchOf, startNode } from '../../tests/support/rig.ts';
import type { TcpFabric } from '../tcp-fabric.ts';

test('every verb does what it does in shared memory', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  for (const where of ['tcp', 'shared'] as const) {
    const base = where === 'tcp' ? 4096 : 8192;
    const out = scratchOf([1n, 2n, -3n, 2n ** 62n]);
    const swap = scratchOf([-3n, 77n, 0n]);
    const failing = scratchOf([5n, 6n, 0n]);
    const add = scratchOf([-1n, 0n]);
    const back = new Scratch(64);
    const batch = new Batch()
      .write(base, 32, out, 0)
      .cas(base + 16, swap, 0)
      .cas(base + 16, failing, 0)
      .faa(base + 24, add, 0)
      .read(base, 32, back, 8);
    if (where === 'tcp') await execute(fabric, batch);
    else local.execute(batch);
    assert.equal(swap.i64[2], -3n, where);
    assert.equal(failing.i64[2], 77n);
    assert.equal(add.i64[1], 2n ** 62n);
    const expected = [1n, 2n, 77n, 2n ** 62n - 1n];
    assert.deepEqual([...back.i64.subarray(1, 5)], expected, where);
    if (where === 'shared') continue;
    const seen = new Scratch(32);
    local.execute(new Batch().read(base, 32, seen, 0));
    assert.deepEqual([...seen.i64.subarray(0, 4)], expected, 'through the other door');
  }
});

test('an idle client keeps nothing of the operations that were answered', async (scope) => {
  const { server } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const into = new Scratch(64);
  // One frame, and a flight.
  const whole = await answered(fabric, new Batch().read(0, 64, into, 0));
  const parts = await answered(fabric, new Batch().pause(0, into).read(0, 64, into, 0));
  // In the turn that made them the engine keeps what weak references point to.
  await new Promise((resolve) => setImmediate(resolve));
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  assert.equal(whole.deref(), undefined);
  assert.equal(parts.deref(), undefined);
});

/** Executes a batch, and returns what waited for it. */
async function answered(fabric: TcpFabric, batch: Batch): Promise<WeakRef<Completion>> {
  return new Promise((resolve) => {
    const completion = { completed: () => resolve(waiting) };
    const waiting = new WeakRef<Completion>(completion);
    fabric.post(batch, completion);
  });
}

test('single bytes and long verbs arrive whole', async (scope) => {
  const { server } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const long = REGION_BYTES - 64;
  const out = new Scratch(long);
  for (let i = 0; i < out.u8.length; i++) out.u8[i] = (i * 7 + (i >> 8)) & 0xff;
  const back = new Scratch(long + 64);
  await execute(fabric, new Batch().write(64, long, out, 0).read(64, long, back, 64));
  assert.deepEqual(back.u8.subarray(64, 64 + long), out.u8.subarray(0, long));
  const bytes = new Scratch(64);
  bytes.u8.set([9, 8, 7], 5);
  const read = new Scratch(16);
  await execute(fabric, new Batch().write(67, 3, bytes, 5).read(64, 8, read, 0));
  assert.deepEqual([...read.u8.subarray(0, 8)], [0, 7, 14, 9, 8, 7, 42, 49]);
  const far = addressOf(1, REGION_BYTES - 8);
  await execute(fabric, new Batch().write(far, 8, out, 0).read(far, 8, read, 8));
  assert.deepEqual(read.u8.subarray(8, 16), out.u8.subarray(0, 8));
});

function* counting(times: number): Operation<bigint> {
  const words = scratchOf([1n, 0n]);
  const batch = new Batch();
  for (let i = 0; i < times; i++) yield batch.clear().faa(128, words, 0);
  return words.i64[1];
}

test('operations in flight together share sends, and adds of all clients are exact', async (scope) => {
  const { server, local } = await startNode(scope);
  const [one, two] = [await connectTo(scope, [server]), await connectTo(scope, [server])];
  const running = Array.from({ length: 64 }, (_, i) => runRemote(i % 2 ? one : two, counting(50)));
  const here = scratchOf([1n, 0n]);
  for (let i = 0; i < 100; i++) {
    local.execute(new Batch().faa(128, here, 0));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(running);
  assert.equal(local.region(0).i64[16], 3300n);
  assert.equal(one.traffic.snapshot().roundTrips, 1600);
});

test('a batch beyond the memory is refused whole; others and later ones go on', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const words = scratchOf([42n, 0n]);
  const beyond = [
    [addressOf(0, REGION_BYTES), 8],
    [addressOf(1, REGION_BYTES - 8), 16],
    [addressOf(2, 0), 8],
    [addressOf(1023, 0), 8],
    [addressOf(1024, 0), 8],
    [2 ** 52 + 64, 8],
    [2 ** 63, 8],
  ] as const;
  const wide = new Scratch(64);
  for (const [address, bytes] of beyond) {
    const bad = new Batch().write(64, 8, words, 0).read(address, bytes, wide, 0);
    const good = runRemote(fabric, counting(1));
    await assert.rejects(execute(fabric, bad), { code: 'SW_POOL_CORRUPT' });
    await good;
    const readAlone = new Batch().read(address, bytes, wide, 0);
    await assert.rejects(execute(fabric, readAlone), { code: 'SW_POOL_CORRUPT' });
  }
  assert.equal(local.region(0).i64[8], 0n, 'the WRITE in front was not executed either');
  assert.equal(local.region(0).i64[16], 7n);
});

test('calls carry bytes both ways and may be answered late', async (scope) => {
  const waiting: ((bytes: Uint8Array) => void)[] = [];
  const { server } = await startNode(scope, {
    calls(method, request) {
      if (method === 300) return request.map((byte) => byte + 1);
      if (method === 301) return new Promise((resolve) => waiting.push(resolve));
      throw new RangeError('no such method');
    },
  });
  const fabric = await connectTo(scope, [server]);
  assert.deepEqual([...(await fabric.call(0, 300, new Uint8Array([1, 2, 255])))], [2, 3, 0]);
  const late = fabric.call(0, 301, new Uint8Array(0));
  await runRemote(fabric, counting(3));
  waiting[0](new Uint8Array(100_000).fill(5));
  assert.deepEqual(await late, new Uint8Array(100_000).fill(5));
  await assert.rejects(fabric.call(0, 302, new Uint8Array(0)), { code: 'SW_PROTOCOL' });
  await assert.rejects(fabric.call(0, 99, new Uint8Array(0)), { code: 'SW_UNSUPPORTED' });
  const area = new Scratch(64);
  area.i32.set([3, 300], 2);
  area.u8.set([7, 8, 9], 16);
  await execute(fabric, new Batch().faa(128, scratchOf([1n, 0n]), 0).call(0, 24, area, 8));
  assert.deepEqual([...area.u8.subarray(8, 19)], [3, 0, 0, 0, 0, 0, 0, 0, 8, 9, 10]);
  area.i32.set([3, 301], 2);
  const tooLong = execute(fabric, new Batch().call(0, 24, area, 8));
  while (waiting.length < 2) await new Promise((resolve) => setImmediate(resolve));
  waiting[1](new Uint8Array(17));
  await assert.rejects(tooLong, { code: 'SW_PROTOCOL' });
});

test('regions are dealt out to several nodes, and order holds across them', async (scope) => {
  const nodes = [await startNode(scope), await startNode(scope), await startNode(scope)];
  const fabric = await connectTo(
    scope,
    nodes.map(({ server }) => server),
  );
  const batch = new Batch();
  const out = scratchOf([10n, 11n, 12n, 13n, 14n, 15n]);
  const back = new Scratch(64);
  for (let region = 0; region < 6; region++)
    batch.write(addressOf(region, 512), 8, out, 8 * region);
  for (let region = 0; region < 6; region++)
    batch.read(addressOf(region, 512), 8, back, 8 * region);
  await execute(fabric, batch);
  assert.deepEqual([...back.i64.subarray(0, 6)], [10n, 11n, 12n, 13n, 14n, 15n]);
  for (let region = 0; region < 6; region++) {
    const { local } = nodes[region % 3];
    assert.equal(local.region(Math.floor(region / 3)).i64[64], BigInt(10 + region));
  }
  await assert.rejects(execute(fabric, new Batch().read(addressOf(6, 0), 8, back, 0)), {
    code: 'SW_POOL_CORRUPT',
  });
});

test('large batches are held back to what the node allows, and complete', async (scope) => {
  const { server } = await startNode(scope, { outstandingBytesMax: 64 * 1024 });
  const fabric = await connectTo(scope, [server]);
  const scratches = Array.from({ length: 40 }, () => new Scratch(300_000));
  await Promise.all(
    scratches.map((scratch, i) => {
      scratch.u8.fill(i);
      const there = new Scratch(300_000);
      const batch = new Batch().write(0, 300_000, scratch, 0).read(0, 300_000, there, 0);
      return execute(fabric, batch).then(() => {
        assert.deepEqual(
          there.u8,
          scratch.u8.map((_, at) => (at < 300_000 ? i : 0)),
        );
      });
    }),
  );
});

test('a node that takes only short frames gets short ones, and no long calls', async (scope) => {
  const frameBytesMax = 8192;
  const calls = (_method: number, request: Uint8Array) => request;
  const nodes = [
    await startNode(scope, { frameBytesMax, calls }),
    await startNode(scope, { frameBytesMax, calls }),
  ];
  const servers = nodes.map(({ server }) => server);
  for (const some of [servers.slice(0, 1), servers]) {
    const fabric = await connectTo(scope, some);
    const long = 100_000;
    const out = new Scratch(long);
    for (let i = 0; i < long; i++) out.u8[i] = (i * 7 + (i >> 8)) & 0xff;
    const back = new Scratch(2 * long);
    const many = new Batch();
    for (let node = 0; node < some.length; node++) {
      many.write(addressOf(node, 64), long, out, 0).read(addressOf(node, 64), long, back, 0);
      const words = Array.from({ length: 2000 }, () => scratchOf([1n, 0n]));
      for (const word of words) many.faa(addressOf(node, 200_000), word, 0);
      for (let i = 0; i < 2000; i++) many.read(addressOf(node, 64 + 8 * i), 8, back, long + 8 * i);
    }
    await execute(fabric, many);
    assert.deepEqual(back.u8.subarray(0, long), out.u8.subarray(0, long));
    assert.deepEqual(back.u8.subarray(long, long + 16_000), out.u8.subarray(0, 16_000));
    const longest = new Uint8Array(frameBytesMax - 16).fill(9);
    assert.deepEqual(await fabric.call(0, 300, longest), longest);
    const beyond = fabric.call(0, 300, new Uint8Array(frameBytesMax - 15));
    await assert.rejects(beyond, { code: 'SW_UNSUPPORTED' });
    await execute(fabric, new Batch().read(64, 8, back, 0));
  }
});

test('a node whose frames are too short for any client is refused with a reason', async (scope) => {
  const { server } = await startNode(scope, { frameBytesMax: 8184 });
  await assert.rejects(connectTo(scope, [server]), (error: Error & { code?: string }) => {
    assert.equal(error.code, 'SW_UNSUPPORTED');
    assert.match(error.message, /frames of 8184 bytes, clients need 8192/);
    return true;
  });
});
