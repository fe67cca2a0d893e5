/** Memory nodes that come back without their memory: never taken for a part of a pool. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext, test } from 'node:test';
import { MemorySource } from '../../../fabrics/shared/memory-source.ts';
import { NodeMemory } from '../../../fabrics/tcp/node/node-memory.ts';
import { NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { AsyncStore, OpenOptions } from '../../api.ts';
import { check, destroy, inspect, open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { type Scope, temporaryDirectory } from '../../tests/support/pools.ts';
import { NodeProcess } from '../../tests/support/processes/remote-processes.ts';
import { startNodes } from '../../tests/support/remote.ts';
import { memoryNodes } from '../memory-nodes.ts';

const BYTES = 32 * 2 ** 20;
const RECORDS = 400;
const OPTIONS: OpenOptions = { client: 'test', maxClients: 16, timeoutMs: 5000 };
const LOST = 'SW_POOL_NOT_FOUND';

const entries = Array.from({ length: RECORDS }, (_, i) => [`key ${i}`, `value ${i}`] as const);

/** The node on this port, gone and there again with blank memory. */
async function comesBackBlank(
  scope: Scope,
  server: NodeServer,
  bytes = BYTES,
): Promise<NodeServer> {
  const { port } = server;
  await server.close();
  const memory = new NodeMemory(MemorySource.allocate(1, bytes), 1, bytes);
  const blank = await NodeServer.listen({ memory, host: '127.0.0.1', port });
  scope.after(() => blank.close());
  return blank;
}

async function isLost(store: AsyncStore, url: string): Promise<void> {
  // The session ends with this call at the latest; whether it did before is a matter of time.
  await store.get('key 0').catch(() => {});
  await rejectsCode(LOST, () => store.get('key 1'), 'a client that reconnects');
  await rejectsCode(LOST, () => store.set('key 1', 'other'));
  await rejectsCode(LOST, () => open(url, { ...OPTIONS, create: false }));
  await rejectsCode(LOST, () => open(url, OPTIONS), 'also when it might create a pool');
  await rejectsCode(LOST, () => inspect(url));
  await rejectsCode(LOST, () => check(url));
  await rejectsCode(LOST, () => memoryNodes(url, { add: ['2'] }));
}

function isBlank({ memory }: NodeServer): boolean {
  return memory.regions.every(({ i64 }) => i64.every((word) => word === 0n));
}

async function filled(t: TestContext, url: string, index: OpenOptions['index']) {
  const store = await open(url, { ...OPTIONS, index });
  t.after(() => store.close());
  await store.setMany(entries);
  return store;
}

describe('a memory node that comes back blank is no part of the pool', () => {
  for (const { manifest } of INDEX_KINDS) {
    const index = manifest.name as OpenOptions['index'];
    for (const lost of [0, 1]) {
      it(`${manifest.name}: node ${lost + 1} of 2`, async (t) => {
        const { servers, url } = await startNodes(t, 2, { bytes: BYTES });
        const store = await filled(t, url, index);
        const blank = await comesBackBlank(t, servers[lost]);
        await isLost(store, url);
        assert.ok(isBlank(blank), 'no client wrote to it');
      });
    }
  }

  it('also with other memory than before', async (t) => {
    const { servers, url } = await startNodes(t, 2, { bytes: BYTES });
    const store = await filled(t, url, 'race');
    await comesBackBlank(t, servers[1], BYTES / 2);
    await isLost(store, url);
  });
});

test('a pool that was destroyed and created again is another one to a store that is open', async (t) => {
  const { url } = await startNodes(t, 2, { bytes: BYTES });
  const store = await filled(t, url, 'race');
  await destroy(url, { force: true });
  const again = await filled(t, url, 'race');
  await rejectsCode(LOST, () => store.get('key 1'));
  await rejectsCode(LOST, () => store.set('key 1', 'other'));
  assert.equal(await again.get('key 1'), 'value 1');
});

test('a node that is killed comes back with its file, and without it the pool is lost', async (t) => {
  const files = ['a', 'b'].map((name) => join(temporaryDirectory(t), name));
  const [first, second] = await Promise.all(
    files.map((file) => NodeProcess.start(t, ['--size', '32m', '--file', file])),
  );
  const url = `tcp://127.0.0.1:${first.port},127.0.0.1:${second.port}`;
  const store = await filled(t, url, 'shard');
  await second.signal('SIGKILL');
  await rejectsCode('SW_NODE_UNREACHABLE', () => store.get('key 0'));
  await second.restart();
  assert.deepEqual(
    await store.getMany(entries.map(([key]) => key)),
    entries.map(([, value]) => value),
  );
  await second.signal('SIGKILL');
  rmSync(files[1]);
  await second.restart();
  await isLost(store, url);
  await destroy(url, { force: true });
  const again = await open(url, OPTIONS);
  assert.equal(await again.get('key 1'), undefined);
  await again.close();
  await rejectsCode(LOST, () => store.get('key 1'));
});
