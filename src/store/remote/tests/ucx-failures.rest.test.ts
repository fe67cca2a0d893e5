/** Memory nodes over UCX and their clients, in processes of their own: killed and started again. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startUcxNode, ucxMissing } from '../../../fabrics/ucx/tests/support/nodes.ts';
import type { OpenOptions } from '../../api.ts';
import { check, checkSync, inspect, open, openSync } from '../../open.ts';
import { startMemoryNode } from '../../servers/memory-node.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { temporaryDirectory } from '../../tests/support/pools.ts';
import { NodeProcess, Writer, writerTask } from '../../tests/support/processes/remote-processes.ts';

const OPTIONS: OpenOptions = { maxClients: 16, client: 'test', timeoutMs: 5000 };
const skip = ucxMissing();

for (const transports of ['tcp', 'posix']) {
  test(`a killed node comes back with what was acknowledged (${transports})`, {
    skip,
  }, async (scope) => {
    const file = join(temporaryDirectory(scope), 'memory');
    const words = ['--fabric', 'ucx', '--transports', transports, '--size', '32m', '--file', file];
    const node = await NodeProcess.start(scope, words);
    const url = `ucx://127.0.0.1:${node.port}`;
    const writer = await Writer.start(scope, writerTask(scope, url, OPTIONS, 'a'));
    const store = await open(url, OPTIONS);
    scope.after(() => store.close());
    await writer.progress(300);
    await node.signal('SIGKILL');
    await rejectsCode('SW_NODE_UNREACHABLE', () => store.get('a0'));
    await writer.failure('SW_NODE_UNREACHABLE');
    await node.restart();
    await writer.progress(300);
    // Killed in the middle of its writes; the other client cleans up after it.
    await writer.kill();
    await writer.verify(store);
    await store.set('after', 'it');
    await store.close();
    assert.deepEqual((await check(url)).problems, []);
    // The same memory by a process that maps it, while the node runs.
    const local = openSync(`file:${file}`, { create: false, client: 'local' });
    assert.equal(local.get('after'), 'it');
    local.set('by', 'file');
    const remote = await open(url, OPTIONS);
    assert.equal(await remote.get('by'), 'file');
    local.close();
    await remote.close();
    assert.deepEqual(checkSync(`file:${file}`).problems, []);
  });
}

test('a node that stands still is given up, and works again', { skip }, async (scope) => {
  const words = ['--fabric', 'ucx', '--transports', 'posix', '--size', '32m'];
  const node = await NodeProcess.start(scope, words);
  const url = `ucx://127.0.0.1:${node.port}`;
  const store = await open(url, { ...OPTIONS, timeoutMs: 500 });
  scope.after(() => store.close());
  await store.set('a', '1');
  await node.signal('SIGSTOP');
  await rejectsCode('SW_NODE_UNREACHABLE', () => store.get('a'));
  await node.signal('SIGCONT');
  assert.equal(await store.get('a'), '1');
});

test('what UCX cannot keep is refused when the node starts', { skip }, async (scope) => {
  const file = join(temporaryDirectory(scope), 'memory');
  const ucx = { port: 0, size: 2 ** 20, fabric: 'ucx' } as const;
  const card = { device: 'mlx5_0:1', transports: 'rc' };
  for (const [code, options] of [
    ['SW_UNSUPPORTED', { ...ucx, ...card, file }],
    ['SW_UNSUPPORTED', { ...ucx, secret: 'a', readSecret: 'b' }],
    ['SW_INVALID_ARGUMENT', { ...ucx, transports: 'rc' }],
    ['SW_INVALID_ARGUMENT', { ...ucx, transports: 'ib' }],
    ['SW_INVALID_ARGUMENT', { port: 0, size: 2 ** 20, device: 'lo' }],
    ['SW_INVALID_ARGUMENT', { ...ucx, fabric: 'rdma' as 'ucx' }],
    // No card is here: the error names the device, and the command that lists them.
    ['SW_UNSUPPORTED', { ...ucx, ...card }],
  ] as const) {
    await rejectsCode(code, () => startMemoryNode(options));
  }
  // Beside a card no process may map the memory, and the error says why.
  const lending = startMemoryNode({ ...ucx, ...card, file });
  await assert.rejects(lending, { message: /a network card's atomics are not atomic with those/ });
  assert.ok(!existsSync(file));
});

test('inspect tells how verbs run, and a node without UCX is told of', { skip }, async (scope) => {
  const node = await startUcxNode('posix');
  scope.after(() => node.stop());
  const url = `ucx://127.0.0.1:${node.port}`;
  await (await open(url, OPTIONS)).close();
  const { fabric, hugePages, whyNoHugePages } = await inspect(url);
  const isAdvised = (mapping: string, flags: string) =>
    / hg\b/.test(flags) && /^\S+ \S+ \S+ \S+ 0 /.test(mapping);
  assert.equal(hugePages, hugePagesOf(isAdvised));
  assert.equal(whyNoHugePages === undefined, hugePages);
  assert.equal(fabric?.name, 'ucx');
  assert.equal(fabric?.transports, 'posix');
  assert.equal(fabric?.atomics, 'processor');
  assert.ok(fabric?.notes.some((note) => note.includes('behind a READ')));
  const file = join(temporaryDirectory(scope), 'memory');
  const lent = await startUcxNode('posix', { file });
  scope.after(() => lent.stop());
  await (await open(`ucx://127.0.0.1:${lent.port}`, OPTIONS)).close();
  const report = await inspect(`ucx://127.0.0.1:${lent.port}`);
  const isFile = (mapping: string) => mapping.split('\n', 1)[0].endsWith(file);
  assert.equal(report.hugePages, hugePagesOf(isFile));
  assert.equal(report.whyNoHugePages?.includes('huge=advise') ?? true, true);
  assert.equal(report.whyNoHugePages === undefined, report.hugePages);
  const plain = await startMemoryNode({ port: 0, size: 2 ** 20 });
  scope.after(() => plain.stop());
  const failing = open(`ucx://127.0.0.1:${plain.port}`, OPTIONS);
  await assert.rejects(failing, { code: 'SW_UNSUPPORTED', message: /--fabric ucx/ });
});

/** Whether any mapping of this process that it is asked about stands on huge pages. */
function hugePagesOf(isAsked: (mapping: string, flags: string) => boolean): boolean {
  const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  return mappings.some((mapping) => {
    const [, flags] = /^VmFlags:(.*)$/m.exec(mapping) ?? ['', ''];
    const isHuge = /^(AnonHugePages|ShmemPmdMapped|FilePmdMapped): +[1-9]/m.test(mapping);
    return isHuge && isAsked(mapping, flags);
  });
}
