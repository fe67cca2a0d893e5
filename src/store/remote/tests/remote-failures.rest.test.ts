/** Memory nodes and clients in processes of their own: killed, stopped and started again. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ErrorCode } from '../../../errors.ts';
import { MemorySource } from '../../../fabrics/shared/memory-source.ts';
import { SESSION_BYTES, writeSession } from '../../../fabrics/tcp/method-arguments.ts';
import { NodeMemory } from '../../../fabrics/tcp/node/node-memory.ts';
import { NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import { TcpRegistrar } from '../../../fabrics/tcp/node/registrar.ts';
import { IS_CONNECTED, REVOKE } from '../../../fabrics/tcp/node-methods.ts';
import { greet } from '../../../fabrics/tcp/tests/support/raw.ts';
import { connectTo, rawConnection } from '../../../fabrics/tcp/tests/support/rig.ts';
import { runRemote } from '../../../verbs/index.ts';
import type { OpenOptions } from '../../api.ts';
import { checkSync, open, openSync } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { temporaryDirectory } from '../../tests/support/pools.ts';
import { NodeProcess, Writer, writerTask } from '../../tests/support/processes/remote-processes.ts';
import { startNodes } from '../../tests/support/remote.ts';

const LEASE_MS = 500;
const LEASE = ['--lease', `${LEASE_MS / 1000}`];
const OPTIONS: OpenOptions = { maxClients: 16, client: 'test', timeoutMs: 5000 };

test('a node that is killed and restarted with its file has all that was acknowledged', async (scope) => {
  const file = join(temporaryDirectory(scope), 'memory');
  const node = await NodeProcess.start(scope, ['--size', '32m', '--file', file]);
  const url = `tcp://127.0.0.1:${node.port}`;
  const writers = [
    await Writer.start(scope, writerTask(scope, url, OPTIONS, 'a')),
    await Writer.start(scope, writerTask(scope, url, OPTIONS, 'b')),
  ];
  const store = await open(url, OPTIONS);
  scope.after(() => store.close());
  for (let round = 0; round < 2; round++) {
    for (const writer of writers) await writer.progress(400);
    await node.signal('SIGKILL');
    await rejectsCode('SW_NODE_UNREACHABLE', () => store.get('a0'));
    for (const writer of writers) await writer.failure('SW_NODE_UNREACHABLE');
    await node.restart();
    // Everybody goes on under a new incarnation.
    for (const writer of writers) {
      await writer.progress(400);
      writer.errors.length = 0;
    }
  }
  for (const writer of writers) {
    await writer.kill();
    await writer.verify(store);
  }
  await store.close();
  // The same memory through the other door, while the node runs.
  const local = openSync(`file:${file}`, { create: false, client: 'local' });
  assert.equal(
    local.size,
    writers.reduce((sum, writer) => sum + writer.begun().size, 0),
  );
  local.close();
  await node.signal('SIGTERM');
  assert.deepEqual(checkSync(`file:${file}`).problems, []);
});

test('a client that is killed is found out, and what it held is taken over', async (scope) => {
  const node = await NodeProcess.start(scope, ['--size', '16m']);
  const url = `tcp://127.0.0.1:${node.port}`;
  const store = await open(url, { ...OPTIONS, maxClients: 3 });
  scope.after(() => store.close());
  // Clients that die and come again fill a small pool, and the table of three clients.
  for (let round = 0; round < 6; round++) {
    const task = { ...writerTask(scope, url, OPTIONS, `${round} `), keys: 60 };
    const writer = await Writer.start(scope, task);
    await writer.progress(30);
    await writer.kill();
    await writer.verify(store);
  }
});

test('a client that stood still too long is told so, and goes on as another', async (scope) => {
  const node = await NodeProcess.start(scope, ['--size', '16m', ...LEASE]);
  const url = `tcp://127.0.0.1:${node.port}`;
  const writer = await Writer.start(scope, writerTask(scope, url, OPTIONS, 'a'));
  const store = await open(url, OPTIONS);
  scope.after(() => store.close());
  await writer.progress(200);
  writer.child.kill('SIGSTOP');
  // The node revokes it for its silence, by the clock on the wall.
  const end = Date.now() + 4 * LEASE_MS;
  for (let i = 0; Date.now() < end; i++) await store.set(`k${i % 50}`, 'v');
  // The others are not held back any more: what they overwrite is used again.
  const value = 'v'.repeat(3000);
  for (let i = 0; i < 6000; i++) await store.set(`k${i % 50}`, value);
  writer.child.kill('SIGCONT');
  await writer.failure('SW_REVOKED');
  await writer.progress(200);
  await writer.kill();
  await writer.verify(store);
});

test('a node that stands still is given up in a bounded time, and revokes nobody for it', async (scope) => {
  const node = await NodeProcess.start(scope, ['--size', '32m', ...LEASE]);
  const url = `tcp://127.0.0.1:${node.port}`;
  const hasty = await open(url, { ...OPTIONS, timeoutMs: 1500 });
  const patient = await open(url, { ...OPTIONS, timeoutMs: 60_000 });
  scope.after(() => hasty.close());
  scope.after(() => patient.close());
  await patient.set('k', 'v');
  await node.signal('SIGSTOP');
  const waiting = patient.get('k');
  await rejectsCode('SW_NODE_UNREACHABLE', () => hasty.get('k'));
  await rejectsCode('SW_NODE_UNREACHABLE', () => hasty.get('k'));
  // That was well beyond the lease, by the clock on the wall.
  await node.signal('SIGCONT');
  assert.equal(await waiting, 'v', 'the same session as before');
  assert.equal(await hasty.get('k'), 'v', 'a new one');
});

async function restarted(server: NodeServer): Promise<NodeServer> {
  const { memory, port } = server;
  await server.close();
  return NodeServer.listen({ memory, host: '127.0.0.1', port });
}

function sessionBytes(session: number): Uint8Array {
  const bytes = new Uint8Array(SESSION_BYTES);
  writeSession(bytes, session, false);
  return bytes;
}

test('dead is who was revoked by every node, also when one restarts in between', async (scope) => {
  const nodes = [0, 1].map(() => {
    const memory = new NodeMemory(MemorySource.allocate(1, 2 ** 20), 1, 2 ** 20);
    return NodeServer.listen({ memory, host: '127.0.0.1', port: 0 });
  });
  const servers = await Promise.all(nodes);
  scope.after(() => Promise.all(servers.map((server) => server.close())).then(() => {}));
  const session = 4242;
  const held = await Promise.all(servers.map(({ port }) => rawConnection(scope, port)));
  for (const socket of held) await greet(socket, session);
  const registrar = new TcpRegistrar(2);
  let judge = await connectTo(scope, servers);
  assert.equal(await runRemote(judge, registrar.isGone(session, false)), false, 'it is alive');
  // The first of two revocations, and the node that did it forgets.
  await judge.call(0, REVOKE, sessionBytes(session));
  servers[0] = await restarted(servers[0]);
  await rejectsCode('SW_NODE_UNREACHABLE', () =>
    runRemote(judge, registrar.isGone(session, false)),
  );
  assert.ok((await connectTo(scope, [servers[1]])).failure === undefined);
  judge = await connectTo(scope, servers);
  const still = await judge.call(1, IS_CONNECTED, sessionBytes(session));
  assert.equal(still[0], 1, 'the other node has it yet: not dead');
  assert.equal(await runRemote(judge, registrar.isGone(session, false)), true);
  assert.equal((await judge.call(1, IS_CONNECTED, sessionBytes(session)))[0], 0);
  // It comes again to the node that forgot it: too late.
  const again = await rawConnection(scope, servers[0].port);
  assert.match((await greet(again, session)).toString('latin1'), /was here before/);
});

test('while one node cannot be asked nobody is declared dead', async (scope) => {
  const { servers, url } = await startNodes(scope, 2);
  const victim = await open(url, OPTIONS);
  scope.after(() => victim.close());
  await victim.set('k', 'v');
  const judge = await connectTo(scope, servers);
  await servers[1].close();
  await rejectsCode('SW_NODE_UNREACHABLE', () =>
    runRemote(judge, new TcpRegistrar(2).isGone(7, false)),
  );
  await rejectsCode('SW_NODE_UNREACHABLE', () => victim.get('k'));
});

test('a node that lost its memory is an error, never an empty pool', async (scope) => {
  const node = await NodeProcess.start(scope, ['--size', '16m']);
  const store = await open(`tcp://127.0.0.1:${node.port}`, OPTIONS);
  scope.after(() => store.close());
  await store.set('k', 'v');
  await node.signal('SIGKILL');
  await rejectsCode('SW_NODE_UNREACHABLE', () => store.get('k'));
  await node.restart();
  await rejectsCode('SW_POOL_NOT_FOUND', () => store.get('k'));
  await rejectsCode('SW_POOL_NOT_FOUND', () => store.set('k', 'w'));
});

test('nodes in another order, too few, or of another pool are refused', async (scope) => {
  const { url } = await startNodes(scope, 3);
  const other = await startNodes(scope, 1);
  const hosts = url.slice('tcp://'.length).split(',');
  const store = await open(url, OPTIONS);
  await store.set('k', 'v');
  await store.close();
  await (await open(other.url, OPTIONS)).close();
  const refused = async (code: ErrorCode, ...order: string[]) => {
    await rejectsCode(code, () => open(`tcp://${order.join(',')}`, OPTIONS));
  };
  const [a, b, c] = hosts;
  const [x] = other.url.slice('tcp://'.length).split(',');
  await refused('SW_INVALID_URL', b, a, c);
  await refused('SW_POOL_FOREIGN', a, c, b);
  await refused('SW_INVALID_URL', a, b);
  await refused('SW_POOL_FOREIGN', a, b, x);
  await refused('SW_INVALID_URL', a, a, b);
});
