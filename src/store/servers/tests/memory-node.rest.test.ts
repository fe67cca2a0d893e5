/** What a memory node refuses, and what clients that keep to nothing can do to the pool on it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { MappedSource } from '../../../fabrics/shared/mapped-source.ts';
import { SharedFabric } from '../../../fabrics/shared/shared-fabric.ts';
import { readChallenge, writeProof } from '../../../fabrics/tcp/handshake.ts';
import { Guesses } from '../../../fabrics/tcp/node/guesses.ts';
import type { NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import { proofOf } from '../../../fabrics/tcp/secrets.ts';
import { frameOf, greet, receive } from '../../../fabrics/tcp/tests/support/raw.ts';
import {
  connectTo,
  execute,
  rawConnection,
  scratchOf,
} from '../../../fabrics/tcp/tests/support/rig.ts';
import {
  BATCH,
  CALL_FRAME,
  FAILURE,
  frameBytes,
  PROOF,
  RETURN,
  typeOf,
  WELCOME,
} from '../../../fabrics/tcp/wire.ts';
import { Batch, type Scratch } from '../../../verbs/index.ts';
import type { OpenOptions } from '../../api.ts';
import { check, destroy, open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { isMissing } from '../../tests/support/missing-tools.ts';
import { patternBytes, type Scope, temporaryDirectory } from '../../tests/support/pools.ts';
import { openAlone, startNodes } from '../../tests/support/remote.ts';
import { type MemoryNodeOptions, startMemoryNode } from '../memory-node.ts';

const MIB = 2 ** 20;

async function startThread(scope: Scope, options: MemoryNodeOptions) {
  const node = await startMemoryNode({ port: 0, size: 16 * MIB, ...options });
  scope.after(() => node.stop());
  return { node, url: `tcp://127.0.0.1:${node.port}` };
}

test('options that a node cannot have', async (scope) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  scope.after(() => {
    taken.close();
  });
  const { port } = taken.address() as { port: number };
  await rejectsCode('SW_ADDRESS_IN_USE', () => startMemoryNode({ port, size: MIB }));
  const absurd: MemoryNodeOptions[] = [
    { host: '0.0.0.0' },
    // Of a network that is for documents: no machine has this address.
    { host: '192.0.2.1', secret: 'hush' },
    { tls: { cert: 'no certificate', key: 'no key' } },
    ...[0, 1000, 2 ** 45].map((size) => ({ size })),
    ...[0, 2 ** 32].map((regionSize) => ({ regionSize })),
    ...[0, 1.5].map((maxConnections) => ({ maxConnections })),
    ...[0, 1024, 2 ** 31].map((outstandingBytesMax) => ({ outstandingBytesMax })),
    ...[0, 65_535, Number.NaN].map((bufferedBytesMax) => ({ bufferedBytesMax })),
    ...[0, 8191, 9000.5, 2 ** 20 + 1].map((frameBytesMax) => ({ frameBytesMax })),
    ...[0, Number.NaN, 2 ** 31].map((leaseMs) => ({ leaseMs })),
    { secret: 'of both', readSecret: Buffer.from('of both') },
    { secret: '' },
  ];
  for (const options of absurd) {
    const start = () => startMemoryNode({ port: 0, size: MIB, ...options });
    await rejectsCode('SW_INVALID_ARGUMENT', start, JSON.stringify(options));
  }
});

test('one file is lent by one node at a time', async (scope) => {
  const file = join(temporaryDirectory(scope), 'memory');
  const first = await startMemoryNode({ port: 0, size: 4 * MIB, file });
  const again = () => startMemoryNode({ port: 0, size: 4 * MIB, file });
  await rejectsCode('SW_POOL_BUSY', again);
  const store = await open(`tcp://127.0.0.1:${first.port}/s`, { maxClients: 8 });
  await store.set('k', 'v');
  await store.close();
  await first.stop();
  // One that cannot listen lets go of it.
  await rejectsCode('SW_INVALID_ARGUMENT', () =>
    startMemoryNode({ port: 0, host: '192.0.2.1', secret: 'hush', file }),
  );
  const second = await again();
  scope.after(() => second.stop());
  const later = await open(`tcp://127.0.0.1:${second.port}/s`, { create: false });
  assert.equal(await later.get('k'), 'v');
  await later.close();
});

test('a node keeps to its limits', async (scope) => {
  const limits = { maxConnections: 2, outstandingBytesMax: 64 * 1024 };
  const { node, url } = await startThread(scope, limits);
  const store = await open(url, { maxClients: 8 });
  scope.after(() => store.close());
  const values = Array.from({ length: 20 }, (_, i) => String(i % 10).repeat(200_000));
  await Promise.all(values.map((value, i) => store.set(`k${i}`, value)));
  assert.deepEqual(await Promise.all(values.map((_, i) => store.get(`k${i}`))), values);
  const raw = await rawConnection(scope, node.port);
  await greet(raw, 99);
  await rejectsCode('SW_TOO_MANY_CLIENTS', () => openAlone(url, { maxClients: 8 }));
  // A frame that says that it is longer than 1 MiB: nobody waits for the rest of it.
  raw.write(frameOf(BATCH, 1, Buffer.alloc(MIB + 8)).subarray(0, 64));
  assert.match((await receive(raw, 1000)).toString('latin1'), /SW_PROTOCOL.*a frame of/s);
  assert.equal(await store.get('k3'), values[3]);
});

for (const frameBytesMax of [8192, 10_001]) {
  test(`clients keep to frames of ${frameBytesMax} bytes`, async (scope) => {
    const limits = { frameBytesMax, outstandingBytesMax: 64 * 1024 };
    const nodes = [await startThread(scope, limits), await startThread(scope, limits)];
    const urls = [nodes[0].url, `${nodes[0].url},127.0.0.1:${nodes[1].node.port}`];
    for (const [i, url] of urls.entries()) {
      const raw = await rawConnection(scope, nodes[0].node.port);
      await greet(raw, 77 + i);
      raw.write(frameOf(BATCH, 1, Buffer.alloc(frameBytesMax)).subarray(0, 64));
      assert.match((await receive(raw, 1000)).toString('latin1'), /SW_PROTOCOL.*a frame of/s);
      const store = await open(url, { maxClients: 8, index: 'chime', values: 'auto' });
      const lengths = [0, 1, 8000, 8176, 8184, 8192, 16_384, 100_000, 700_000];
      const values = lengths.map((length) => patternBytes(length, length + 1));
      await Promise.all(values.map((value, at) => store.set(`k${at}`, value)));
      await store.setMany(values.map((value, at) => [`many${at}`, value] as const));
      const keys = values.flatMap((_, at) => [`k${at}`, `many${at}`]);
      const twice = values.flatMap((value) => [value, value]);
      const found = (await store.getMany(keys)).map((value) => Buffer.from(value as Uint8Array));
      assert.deepEqual(
        found,
        twice.map((value) => Buffer.from(value)),
      );
      assert.equal(await store.count(), keys.length);
      assert.deepEqual((await check(url)).problems, []);
      await store.close();
      await destroy(url);
    }
  });
}

test("a node's memory is changed exactly, while its own machine changes it too", async (scope: TestContext) => {
  const file = join(temporaryDirectory(scope), 'memory');
  // A thread of its own executes the verbs of clients: it runs while this one does.
  const { node } = await startThread(scope, { size: MIB, file });
  const source = new MappedSource(file, openSync(file, 'r+'), MIB);
  scope.after(() => source.close());
  const local = new SharedFabric(source);
  const remote = await connectTo(scope, [{ port: node.port } as NodeServer]);
  const [here, there] = [scratchOf([1n, 0n]), scratchOf([1n, 0n])];
  const batch = (words: Scratch, verbs: number) => {
    const adds = new Batch();
    for (let i = 0; i < verbs; i++) adds.faa(64, words, 0);
    return adds;
  };
  const own = batch(here, 50);
  const word = () => local.region(0).i64[8];
  // How often the two were at it together is the system's to decide; a handful would do.
  let meetings = 0;
  let sum = 0n;
  for (let round = 0; round < 100 && meetings < 300; round++) {
    const frames = Array.from({ length: 60 }, () => execute(remote, batch(there, 2000)));
    // The frames leave when the event loop turns; then this thread keeps at it without a turn.
    await new Promise((resolve) => setImmediate(resolve));
    for (let i = 0; i < 500; i++) {
      const before = word();
      local.execute(own);
      if (here.i64[1] - before >= 50n) meetings++;
    }
    await Promise.all(frames);
    sum += 60n * 2000n + 500n * 50n;
    assert.equal(word(), sum);
  }
  scope.diagnostic(`${meetings} of this thread's doorbells met the other's`);
});

test('a store behind TLS and a secret', { skip: isMissing('openssl') }, async (scope) => {
  const folder = temporaryDirectory(scope);
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => join(folder, name));
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const name = ['-subj', '/CN=node', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = spawnSync('openssl', [
    'req',
    '-x509',
    ...curve,
    ...name,
    '-keyout',
    key,
    '-out',
    cert,
  ]);
  assert.equal(made.status, 0, String(made.stderr));
  const [ca, pem] = [readFileSync(cert, 'utf8'), readFileSync(key, 'utf8')];
  const { node } = await startThread(scope, { tls: { cert: ca, key: pem }, secret: 'hush' });
  const url = `tls://127.0.0.1:${node.port}/inside`;
  const store = await open(url, { tls: { ca }, secret: 'hush', maxClients: 8 });
  scope.after(() => store.close());
  const large = 'large '.repeat(100_000);
  await Promise.all([store.set('small', 'v'), store.set('large', large)]);
  assert.deepEqual(await store.getMany(['small', 'large']), ['v', large]);
  const options = { create: false, timeoutMs: 2000 };
  const refused: OpenOptions[] = [
    { secret: 'hush' },
    { tls: { ca } },
    { tls: { ca }, secret: 'louder' },
  ];
  for (const wrong of refused) {
    await rejectsCode('SW_UNAUTHENTICATED', () => open(url, { ...options, ...wrong }));
  }
  const plain = url.replace('tls:', 'tcp:');
  const unheard = () => open(plain, { ...options, timeoutMs: 300, secret: 'hush' });
  await rejectsCode('SW_NODE_UNREACHABLE', unheard);
});

/** Greets with a PROOF of which one byte is another; whether the node lets it in. */
async function isWelcome(scope: Scope, port: number, session: number, at?: number) {
  const socket = await rawConnection(scope, port);
  const { boot, nonce: nodeNonce } = readChallenge((await receive(socket, 64)).subarray(8));
  const nonce = new Uint8Array(32).fill(7);
  const transcript = { boot, session, nodeNonce, clientNonce: nonce };
  const proof = proofOf('client', Buffer.from('hush'), transcript);
  const frame = frameOf(PROOF, 0, writeProof({ session, nonce, proof, name: 'raw' }));
  if (at !== undefined) frame[at] ^= 1;
  socket.end(frame);
  const answer = await receive(socket, 8);
  socket.destroy();
  return answer.length === 8 && typeOf(answer.readUInt32LE(0)) === WELCOME;
}

test('a greeting of which any byte is another lets nobody in', async (scope) => {
  const guesses = new Guesses(() => 0, 0);
  const { servers } = await startNodes(scope, 1, { secret: Buffer.from('hush'), guesses });
  const [{ port }] = servers;
  // Type and length; then, behind the sequence, magic, version, session, nonce and proof.
  const places = [...Array(4).keys(), ...Array.from({ length: 80 }, (_, i) => 8 + i)];
  for (const at of places) {
    assert.equal(await isWelcome(scope, port, 1000 + at, at), false, `byte ${at}`);
  }
  assert.equal(await isWelcome(scope, port, 999), true);
});

test('whatever is called, the pool is unharmed, and every call is answered', async (scope) => {
  const { servers, url } = await startNodes(scope, 1, { bytes: 16 * MIB });
  const store = await open(url, { maxClients: 8 });
  scope.after(() => store.close());
  await store.set('key', 'value');
  const raw = await rawConnection(scope, servers[0].port);
  raw.setMaxListeners(0);
  await greet(raw, 4242);
  const calls = fc.record({
    method: fc.oneof(fc.integer({ min: 0, max: 8 }), fc.integer()),
    length: fc.oneof(fc.constant(undefined), fc.integer({ min: 0, max: 300 })),
    request: fc.uint8Array({ maxLength: 300 }),
  });
  await fc.assert(
    fc.asyncProperty(calls, async ({ method, length, request }) => {
      const content = Buffer.alloc(8 + request.length);
      content.writeInt32LE(method, 0);
      // More than there is breaks a rule of the wire, which ends the connection: not asked here.
      content.writeInt32LE(Math.min(length ?? request.length, request.length), 4);
      content.set(request, 8);
      raw.write(frameOf(CALL_FRAME, 5, content));
      const head = await receive(raw, 8);
      const type = typeOf(head.readUInt32LE(0));
      assert.ok(type === RETURN || type === FAILURE, `type ${type}`);
      await receive(raw, frameBytes(head.readUInt32LE(0)) - 8);
      assert.equal(head.readInt32LE(4), 5, 'the connection goes on');
      assert.equal(await store.get('key'), 'value');
    }),
    { numRuns: 300 },
  );
  assert.equal((await store.stats()).records, 1);
});
