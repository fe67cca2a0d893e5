import assert from 'node:assert/strict';
import { readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rounds } from '../../random/tests/support/rounds.ts';
import type { OpenOptions } from '../api.ts';
import { checkSync, createSync, inspectSync, openSync } from '../open.ts';
import { keepOpen, temporaryDirectory } from './support/pools.ts';
import { Child } from './support/processes/children.ts';

const OPTIONS: OpenOptions = {
  size: 2 * 2 ** 20,
  maxClients: 8,
  index: { kind: 'race', groups: 8, maxDepth: 6 },
};
const ROUNDS = rounds(10, 200);
const soon = () => Date.now() + 4;

/** Of a process that is long gone. */
function abandonedDraft(path: string): void {
  writeFileSync(path, '');
  utimesSync(path, 1, 1);
}

/** Both children meet at a fresh path in each round. */
test('two processes that create and open the same pool: one pool, nobody fails', async (t) => {
  const directory = temporaryDirectory(t);
  const children = [new Child(t), new Child(t)];
  for (let round = 0; round < ROUNDS; round++) {
    const path = join(directory, `pool-${round}`);
    // Drafts of creators that were killed are cleaned up by both at the same time.
    for (let i = 0; i < 5; i++) abandonedDraft(`${path}.4194303.${i}.new`);
    const at = soon();
    const order = { kind: 'open', url: `file:${path}`, options: OPTIONS, at } as const;
    const answers = await Promise.all(
      children.map((child, i) => child.ask({ ...order, key: `child ${i}` })),
    );
    assert.deepEqual(answers, ['open', 'open'], `round ${round}`);
    const store = openSync(`file:${path}`, { create: false });
    assert.deepEqual([...store.keys()].sort(), ['child 0', 'child 1']);
    store.close();
    if (round % 10 === 0) {
      const report = inspectSync(`file:${path}`);
      assert.equal(report.stores.length, 1);
      assert.equal(report.clients.length, 3);
      assert.deepEqual(checkSync(`file:${path}`).problems, []);
    }
    await Promise.all(children.map((child) => child.ask({ kind: 'close' })));
  }
  assert.equal(readdirSync(directory).length, ROUNDS, 'no drafts are left');
});

test('of two processes that create the same pool exactly one succeeds', async (t) => {
  const directory = temporaryDirectory(t);
  const children = [new Child(t), new Child(t)];
  for (let round = 0; round < ROUNDS; round++) {
    const order = { kind: 'create', url: `file:${directory}/${round}`, options: OPTIONS } as const;
    const at = soon();
    const answers = await Promise.all(children.map((child) => child.ask({ ...order, at })));
    assert.deepEqual(answers.sort(), ['SW_POOL_EXISTS', 'created'], `round ${round}`);
  }
  assert.equal(readdirSync(directory).length, ROUNDS);
});

test('of two processes that create the same store exactly one succeeds', async (t) => {
  const url = `file:${temporaryDirectory(t)}/pool`;
  assert.equal(createSync(url, { size: 2 ** 28, maxClients: 8 }), true);
  const children = [new Child(t), new Child(t)];
  for (let round = 0; round < ROUNDS; round++) {
    const order = { kind: 'create', url, options: { store: `${round}` } } as const;
    const at = soon();
    const answers = await Promise.all(children.map((child) => child.ask({ ...order, at })));
    assert.deepEqual(answers.sort(), ['SW_STORE_EXISTS', 'created'], `round ${round}`);
  }
  assert.equal(inspectSync(url).stores.length, ROUNDS);
  assert.deepEqual(checkSync(url).problems, []);
});

test('create makes a pool, a store in it, or both, and all of it or nothing', (t) => {
  const url = `file:${temporaryDirectory(t)}/pool`;
  const index = { kind: 'hstore', partitions: 2, sync: true } as const;
  // The parameters cannot be, which the index finds out when the pool is there.
  const wrong = { ...index, partitions: 5000 };
  assert.throws(() => createSync(url, { store: 'a', index: wrong }), {
    code: 'SW_INVALID_ARGUMENT',
  });
  assert.throws(() => inspectSync(url), { code: 'SW_POOL_NOT_FOUND' });
  assert.equal(createSync(url, { size: OPTIONS.size, store: 'a', index }), true);
  assert.equal(createSync(url, { index: 'race' }), false);
  assert.throws(() => createSync(url), { code: 'SW_POOL_EXISTS' });
  assert.throws(() => createSync(url, { store: 'b', size: 2 ** 22 }), { code: 'SW_POOL_EXISTS' });
  assert.throws(() => createSync(url, { store: 'a' }), { code: 'SW_STORE_EXISTS' });
  const [first, second] = inspectSync(url).stores;
  assert.deepEqual(
    [first.name, first.index, second.name, second.index],
    ['a', 'hstore', 'default', 'race'],
  );
  assert.deepEqual([first.parameters.partitions, first.parameters.sync], [2, true]);
});

test('attaching while another creates: there or not there, never half', async (t) => {
  const directory = temporaryDirectory(t);
  const [creator, reader] = [new Child(t), new Child(t)];
  for (let round = 0; round < ROUNDS; round++) {
    const url = `file:${directory}/${round}`;
    const reading = reader.ask({ kind: 'attach', url });
    const order = { kind: 'open', url, options: OPTIONS, at: soon(), key: 'k' } as const;
    assert.deepEqual(await Promise.all([creator.ask(order), reading]), ['open', 'open']);
    await Promise.all([creator, reader].map((child) => child.ask({ kind: 'close' })));
  }
});

test('a client that is killed leaves its row, and the next one to come frees it', async (t) => {
  const url = `file:${temporaryDirectory(t)}/pool`;
  const child = new Child(t);
  const order = { kind: 'open', url, options: OPTIONS, at: 0, key: 'of the dead' } as const;
  assert.equal(await child.ask(order), 'open');
  const store = keepOpen(t, openSync(url));
  assert.equal(inspectSync(url).clients.filter(({ alive }) => alive).length, 3);
  child.process.kill('SIGKILL');
  await child.exited;
  const { clients } = inspectSync(url);
  assert.deepEqual(
    clients.map(({ pid }) => pid),
    [process.pid, process.pid],
  );
  assert.equal(store.get('of the dead'), 'here');
  assert.deepEqual(checkSync(url).problems, []);
});
