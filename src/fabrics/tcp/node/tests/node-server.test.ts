import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { Batch, READ, Scratch, WRITE } from '../../../../verbs/index.ts';
import { MemorySource } from '../../../shared/memory-source.ts';
import { isLoopback } from '../../endpoint.ts';
import { SESSION_BYTES, sessionTag, writeSession } from '../../method-arguments.ts';
import { IS_CONNECTED, REVOKE } from '../../node-methods.ts';
import { frameOf, greet, receive, verbsOf } from '../../tests/support/raw.ts';
import {
  connectTo,
  execute,
  REGION_BYTES,
  rawConnection,
  scratchOf,
  startNode,
} from '../../tests/support/rig.ts';
import { BATCH, FAILURE, typeOf } from '../../wire.ts';
import { NodeMemory } from '../node-memory.ts';
import { NodeServer } from '../node-server.ts';

const secret = Buffer.from('correct horse');

function sessionBytes(session: number, tagOnly = false): Uint8Array {
  const bytes = new Uint8Array(SESSION_BYTES);
  writeSession(bytes, session, tagOnly);
  return bytes;
}

test('only who knows the secret gets in, and only a node that knows it is believed', async (scope) => {
  const { server } = await startNode(scope, { secret });
  const open = await startNode(scope);
  const fabric = await connectTo(scope, [server], { secret });
  await execute(fabric, new Batch().faa(64, scratchOf([1n, 0n]), 0));
  const code = 'SW_UNAUTHENTICATED';
  await assert.rejects(connectTo(scope, [server]), { code });
  await assert.rejects(connectTo(scope, [server], { secret: Buffer.from('wrong') }), { code });
  await assert.rejects(connectTo(scope, [open.server], { secret }), { code });
  const raw = await rawConnection(scope, server.port);
  raw.write(frameOf(BATCH, 1, verbsOf([{ kind: WRITE, region: 0, offset: 0, bytes: 8, fill: 1 }])));
  const said = await receive(raw, 1000);
  assert.match(said.toString('latin1'), /SW_PROTOCOL/);
  assert.equal(server.memory.regions[0].i64[0], 0n, 'nothing is executed before the proof');
});

test('off loopback a secret is needed', async () => {
  const memory = new NodeMemory(MemorySource.allocate(1, REGION_BYTES), 1, REGION_BYTES);
  await assert.rejects(NodeServer.listen({ memory, host: '0.0.0.0', port: 0 }), {
    code: 'SW_INVALID_ARGUMENT',
  });
  for (const host of ['127.0.0.1', '127.8.9.1', '::1', 'localhost']) assert.ok(isLoopback(host));
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example'])
    assert.ok(!isLoopback(host));
});

test('a proof that was seen on the wire is worth nothing on another connection', async (scope) => {
  const { server } = await startNode(scope, { secret });
  const first = await rawConnection(scope, server.port);
  const written: Buffer[] = [];
  const { write } = first;
  first.write = ((chunk: Buffer) => {
    written.push(chunk);
    return write.call(first, chunk);
  }) as typeof first.write;
  await greet(first, 5, 'correct horse');
  first.destroy();
  const second = await rawConnection(scope, server.port);
  second.write(written[0]);
  assert.match((await receive(second, 1000)).toString('latin1'), /SW_UNAUTHENTICATED/);
});

test('more connections than allowed are told so', async (scope) => {
  const { server } = await startNode(scope, { maxConnections: 2 });
  const one = await connectTo(scope, [server]);
  await connectTo(scope, [server]);
  await assert.rejects(connectTo(scope, [server]), { code: 'SW_TOO_MANY_CLIENTS' });
  one.close();
  while (server.connections > 1) await new Promise((resolve) => setImmediate(resolve));
  await connectTo(scope, [server]);
});

test('a revoked client executes nothing any more, and learns why', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const other = await connectTo(scope, [server]);
  const { session } = fabric;
  assert.equal((await other.call(0, IS_CONNECTED, sessionBytes(session)))[0], 1);
  const tag = sessionBytes(sessionTag(session), true);
  assert.equal((await other.call(0, IS_CONNECTED, tag))[0], 1);
  assert.equal((await other.call(0, REVOKE, sessionBytes(session)))[0], 1);
  // In flight when it is revoked, or sent afterwards: the memory does not see it.
  const late = execute(fabric, new Batch().write(64, 8, scratchOf([9n]), 0));
  await assert.rejects(late, { code: 'SW_REVOKED' });
  await assert.rejects(execute(fabric, new Batch().read(64, 8, new Scratch(8), 0)), {
    code: 'SW_REVOKED',
  });
  assert.equal(local.region(0).i64[8], 0n);
  assert.equal((await other.call(0, IS_CONNECTED, sessionBytes(session)))[0], 0);
  assert.equal((await other.call(0, REVOKE, sessionBytes(session)))[0], 0, 'and once more');
  // Somebody who comes with that session again is not let in.
  const again = await rawConnection(scope, server.port);
  assert.match((await greet(again, session)).toString('latin1'), /was here before/);
  const unknown = await rawConnection(scope, server.port);
  await other.call(0, REVOKE, sessionBytes(77));
  assert.match((await greet(unknown, 77)).toString('latin1'), /was here before/);
});

test('frames that arrived before the revocation and were not executed stay so', async (scope) => {
  const { server, local } = await startNode(scope, { outstandingBytesMax: 1024 });
  const other = await connectTo(scope, [server]);
  const raw = await rawConnection(scope, server.port);
  await greet(raw, 1234);
  // Answers that nobody takes: the node stops executing for this client, and frames pile up.
  const reads = { kind: 0, region: 0, offset: 0, bytes: 128 * 1024, fill: 0 };
  const piled = Array.from({ length: 400 }, (_, i) => frameOf(BATCH, i, verbsOf([reads])));
  const write = { kind: WRITE, region: 0, offset: 64, bytes: 8, fill: 1 };
  raw.write(Buffer.concat([...piled, frameOf(BATCH, 999, verbsOf([write]))]));
  for (let i = 0; i < 200; i++) await execute(other, new Batch().faa(512, scratchOf([1n, 0n]), 0));
  assert.equal(local.region(0).i64[8], 0n, 'the WRITE waits behind what is not taken');
  await other.call(0, REVOKE, sessionBytes(1234));
  assert.match((await receive(raw, 100e6)).toString('latin1'), /SW_REVOKED/);
  assert.equal(local.region(0).i64[8], 0n);
});

test('slow readers together take a bounded memory, and no time of fast ones', async (scope) => {
  const accepted: Socket[] = [];
  const note = (message: unknown) => accepted.push((message as { socket: Socket }).socket);
  subscribe('net.server.socket', note);
  scope.after(() => void unsubscribe('net.server.socket', note));
  const waiting = () => accepted.reduce((sum, { writableLength }) => sum + writableLength, 0);
  const bufferedBytesMax = 2 ** 20;
  const { server, local } = await startNode(scope, { bufferedBytesMax, leaseMs: 600_000 });
  const fast = await connectTo(scope, [server]);
  const reads = Array.from({ length: 160 }, (_, i) => {
    const verb = { kind: READ, region: 0, offset: 0, bytes: 64 * 1024, fill: 0 };
    return frameOf(BATCH, i, verbsOf([verb]));
  });
  const slow = await Promise.all(
    Array.from({ length: 16 }, () => rawConnection(scope, server.port)),
  );
  for (const [i, socket] of slow.entries()) {
    await greet(socket, 100 + i);
    socket.write(Buffer.concat(reads));
  }
  local.region(0).u8.fill(7);
  let most = 0;
  for (let i = 0; i < 200; i++) {
    const scratch = new Scratch(512 * 1024);
    await execute(fast, new Batch().read(0, 512 * 1024, scratch, 0));
    assert.equal(scratch.u8.at(-1), 7);
    most = Math.max(most, waiting());
  }
  // Beyond the bound each client has its socket's share and what was put together at once.
  const beyond = slow.length * (accepted[0].writableHighWaterMark + 256 * 1024);
  assert.ok(most > bufferedBytesMax / 2, `${most} bytes: the readers are not slow`);
  assert.ok(most < bufferedBytesMax + beyond, `${most} bytes`);
  await Promise.all(
    slow.map(async (socket) => {
      let missing = reads.length * (64 * 1024 + 8);
      while (missing > 0) missing -= (await once(socket, 'data'))[0].length;
    }),
  );
  await execute(fast, new Batch().faa(64, scratchOf([1n, 0n]), 0));
  assert.deepEqual([waiting(), server.buffered], [0, 0]);
});

test('a silent client is revoked after its lease; one that only waits is not', async (scope) => {
  const { server } = await startNode(scope, { leaseMs: 200 });
  const alive = await connectTo(scope, [server]);
  const raw = await rawConnection(scope, server.port);
  await greet(raw, 4321);
  const said = await receive(raw, 1000);
  assert.equal(typeOf(said.readUInt32LE(0)), FAILURE);
  assert.match(said.toString('latin1'), /SW_REVOKED/);
  await execute(alive, new Batch().faa(64, scratchOf([1n, 0n]), 0));
});

test('a node that goes away fails what is under way, and all after it', async (scope) => {
  const { server } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  await execute(fabric, new Batch().faa(64, scratchOf([1n, 0n]), 0));
  const posted = execute(fabric, new Batch().faa(64, scratchOf([1n, 0n]), 0));
  await server.close();
  const code = 'SW_NODE_UNREACHABLE';
  await assert.rejects(posted, { code });
  await assert.rejects(execute(fabric, new Batch().faa(64, scratchOf([1n, 0n]), 0)), { code });
  await assert.rejects(fabric.call(0, IS_CONNECTED, sessionBytes(1)), { code });
  await assert.rejects(connectTo(scope, [server]), { code });
});

test('a node that says nothing is given up in a bounded time', async (scope) => {
  const { createServer } = await import('node:net');
  const mute = createServer(() => {});
  mute.listen(0, '127.0.0.1');
  await once(mute, 'listening');
  scope.after(() => {
    mute.close();
  });
  const { port } = mute.address() as { port: number };
  const fake = { port } as NodeServer;
  await assert.rejects(connectTo(scope, [fake], { timeoutMs: 100 }), {
    code: 'SW_NODE_UNREACHABLE',
  });
});
