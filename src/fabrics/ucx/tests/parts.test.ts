/** What needs no UCX, or only to look for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { Batch, PAUSE, Scratch } from '../../../verbs/index.ts';
import { segmentEnd } from '../../tcp/client/flight.ts';
import { WireError } from '../../tcp/wire.ts';
import { loadUcx, type UcxLibrary } from '../binding/library.ts';
import { BounceRing } from '../client/bounce-ring.ts';
import { pieceOf } from '../client/posting.ts';
import { UcxClient } from '../client/ucx-client.ts';
import { type LentMemory, readLentMemory, writeLentMemory } from '../lent-memory.ts';
import { transportsOf } from '../transports.ts';

const ONE_PATH = { readThenAtomic: false, others: true };
/** UCS_ERR_NO_RESOURCE. */
const NO_RESOURCE = -2;
const NO_ORDER = { readThenAtomic: false, others: false };

test('without the library the error names its package', () => {
  for (const name of ['libucp-that-is-not-there.so.0', 'libc.so.6']) {
    assert.throws(() => loadUcx(name), { code: 'SW_UNSUPPORTED', message: /libucx0/ });
  }
});

test('a segment ends where a queue pair does not keep the order of the contract', () => {
  const s = new Scratch(64);
  const ends = (batch: Batch, orders = ONE_PATH): number[] => {
    const all: number[] = [];
    for (let end = 0; end < batch.length; ) {
      end = segmentEnd(batch, end, 1, orders);
      all.push(end);
    }
    return all;
  };
  const writing = () => new Batch().write(0, 8, s, 0).cas(0, s, 0).read(0, 8, s, 0);
  assert.deepEqual(ends(writing()), [3]);
  assert.deepEqual(ends(writing().faa(0, s, 0)), [3, 4], 'READ before an atomic');
  assert.deepEqual(ends(new Batch().read(0, 8, s, 0).read(0, 8, s, 0).write(0, 8, s, 0)), [3]);
  assert.deepEqual(ends(writing(), NO_ORDER), [1, 2, 3]);
  const reads = new Batch().read(0, 8, s, 0).write(0, 8, s, 0).write(8, 8, s, 0);
  assert.deepEqual(ends(reads, NO_ORDER), [2, 3], 'a WRITE need not wait for a READ');
  const paused = new Batch().pause(5, s).cas(0, s, 0);
  assert.equal(paused.kind[0], PAUSE);
  assert.deepEqual(ends(paused), [1, 2]);
});

test('pieces of a WRITE beside mapping processes write each word once', () => {
  const shape = { node: 0, nodes: 1, regionBytes: 4096, pieceBytes: 4096, writesOnce: true };
  const cut = (bytes: number) => {
    const pieces: number[] = [];
    for (let left = bytes; left > 0; left -= pieces.at(-1) as number) {
      pieces.push(pieceOf(left, shape));
    }
    return pieces;
  };
  assert.deepEqual(cut(48), [32, 16]);
  assert.deepEqual(cut(24), [16, 8]);
  assert.deepEqual(cut(3), [2, 1]);
  assert.deepEqual(cut(300), [128, 128, 32, 8, 4]);
  assert.equal(pieceOf(5000, { ...shape, writesOnce: false }), 4096);
});

test('a ring gives out pieces that do not overlap, and refuses when it is full', () => {
  const ring = new BounceRing({ addressOf: () => 4096 } as unknown as UcxLibrary, 1024);
  assert.equal(ring.take(8), 0);
  assert.equal(ring.take(65), 64);
  assert.equal(ring.take(640), 192);
  const { mark } = ring;
  assert.equal(ring.take(256), -1);
  assert.equal(ring.take(192), 832);
  ring.giveBack(mark);
  assert.equal(ring.take(512), 0, 'round the end');
  assert.equal(ring.take(512), -1);
  assert.equal(ring.taken, 192 + 512);
});

test('transports that cannot be used together are refused', () => {
  assert.deepEqual(transportsOf(undefined, undefined), {
    names: 'tcp',
    device: 'lo',
    atomics: 'cpu',
    isOnePath: true,
  });
  assert.equal(transportsOf(undefined, 'mlx5_0:1').atomics, 'device');
  assert.ok(transportsOf('rc,ud', 'mlx5_0:1').isOnePath);
  assert.ok(!transportsOf('tcp,posix', undefined).isOnePath);
  for (const [names, device] of [
    ['rc,tcp', 'mlx5_0:1'],
    ['rc', undefined],
    ['ud', 'mlx5_0:1'],
    ['cma', undefined],
    ['', undefined],
  ] as const) {
    throwsCode('SW_INVALID_ARGUMENT', () => transportsOf(names, device));
  }
});

test('what a node lends is read back, and nothing that was cut or changed', () => {
  const piece = (address: number) => ({ address, bytes: 4096, key: Uint8Array.of(1, 2, 3) });
  const lent: LentMemory = {
    transports: transportsOf('posix', undefined),
    isMapped: true,
    workerAddress: new Uint8Array(50).fill(7),
    trial: piece(64),
    regions: [piece(8192), piece(16_384)],
  };
  const message = writeLentMemory(lent);
  assert.deepEqual(readLentMemory(message, 2, 4096), lent);
  for (let length = 0; length < message.length; length += 8) {
    assert.throws(() => readLentMemory(message.slice(0, length), 2, 4096), WireError);
  }
  assert.throws(() => readLentMemory(message, 3, 4096), WireError);
  assert.throws(() => readLentMemory(message, 2, 8192), WireError);
  for (let at = 0; at < 24; at++) {
    const changed = message.slice();
    changed[at] ^= 0x80;
    try {
      assert.notDeepEqual(readLentMemory(changed, 2, 4096), lent, `byte ${at}`);
    } catch (error) {
      const isClear = error instanceof WireError || (error as { code?: string }).code !== undefined;
      assert.ok(isClear, `byte ${at}: ${error}`);
    }
  }
});

test('a client looks for completions once a turn, whatever they post', async () => {
  const turns = 12;
  const client = new UcxClient(
    pretended(() => 0),
    transportsOf('posix', undefined),
  );
  let looks = 0;
  const complete = () => {
    looks++;
    client.begin();
    return true;
  };
  client.add({ isWaiting: true, complete });
  client.begin();
  for (let turn = 0; turn < turns; turn++) await nextTurn();
  client.close();
  assert.ok(looks > 1 && looks <= turns + 1, `${looks} looks`);
});

test('what answers lead to is posted again and again, and the event loop turns', async () => {
  const client = new UcxClient(
    pretended(() => 0),
    transportsOf('posix', undefined),
  );
  const post = () => client.begin();
  let looks = 0;
  const complete = () => {
    if (++looks < 1_000_000) client.soon(post);
    return true;
  };
  client.add({ isWaiting: false, complete });
  client.soon(post);
  for (let turn = 0; turn < 5; turn++) await nextTurn();
  client.close();
  assert.ok(looks > 1 && looks < 1_000_000, `${looks} looks`);
});

test('one thread waits for a client, which destroys its worker once', async () => {
  const calls: string[] = [];
  let wake = () => {};
  const waiting = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const ucx = pretended((name) => {
    calls.push(name);
    return 0;
  });
  const pollLater = () => {
    calls.push('pollLater');
    return waiting;
  };
  const library = new Proxy(ucx, {
    get: (of, name) => (name === 'pollLater' ? pollLater : Reflect.get(of, name)),
  });
  const client = new UcxClient(library, transportsOf('posix', undefined));
  client.add({ isWaiting: true, complete: () => false });
  // A look is due in the next turn, as well, when verbs are posted and looked for in this one.
  client.begin();
  const post = () => {
    client.begin();
    for (const end = performance.now() + 1; performance.now() < end; );
  };
  for (let turn = 0; turn < 20; turn++) {
    client.soon(post);
    await nextTurn();
  }
  client.close();
  wake();
  await nextTurn();
  const count = (name: string) => calls.filter((call) => call === name).length;
  assert.deepEqual([count('pollLater'), count('workerDestroy')], [1, 1]);
});

test('what was made before a worker cannot be waited for is destroyed', () => {
  const calls: string[] = [];
  const ucx = pretended((name) => {
    calls.push(name);
    return name === 'workerGetEfd' ? NO_RESOURCE : 0;
  });
  const posix = transportsOf('posix', undefined);
  throwsCode('SW_UNSUPPORTED', () => new UcxClient(ucx, posix));
  const made = calls.filter((name) => /^(workerC|workerD|init|cleanup)/.test(name));
  assert.deepEqual(made, ['initVersion', 'workerCreate', 'workerDestroy', 'cleanup']);
});

/** A library that does nothing, and answers each call with what it is told. */
function pretended(answer: (name: string) => number): UcxLibrary {
  const clearer = () => ({ address: 8, release() {} });
  const call = (name: string) => {
    if (name === 'clearer') return clearer;
    return name === 'addressOf' ? () => 8 : () => answer(name);
  };
  return new Proxy({}, { get: (_, name) => call(String(name)) }) as UcxLibrary;
}
