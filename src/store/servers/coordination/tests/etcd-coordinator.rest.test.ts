import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Candidacy } from '../../../../indexes/hstore/election.ts';
import { HStoreIndex } from '../../../../indexes/hstore/hstore.ts';
import { PATIENCE } from '../../../../indexes/hstore/protocol/waiting.ts';
import type { Store } from '../../../api.ts';
import { attach, checkSync } from '../../../open.ts';
import { isMissing, isMissingPackage } from '../../../tests/support/missing-tools.ts';
import { freshStore, numbered, type Scope } from '../../../tests/support/pools.ts';
import { RealEtcd } from '../../../tests/support/processes/etcd.ts';
import { ServerProcess, startServer } from '../../../tests/support/processes/index-servers.ts';
import { EtcdCoordinator } from '../etcd-coordinator.ts';

const skip = isMissing('etcd') || isMissingPackage('etcd3');
/** Longer than a busy machine keeps a process waiting. */
const TTL = 3;

function newStore(scope: Scope): Store<string> {
  return freshStore(scope, 'shm', { index: 'hstore' }) as Store<string>;
}

async function connected(scope: Scope, hosts: readonly string[]): Promise<EtcdCoordinator> {
  const coordinator = await EtcdCoordinator.connect({ hosts, ttl: TTL });
  scope.after(() => coordinator.close());
  return coordinator;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}

const isElected = ({ token }: Candidacy) => token !== undefined;

test('one of two is elected; the next one has a greater token', { skip }, async (t) => {
  const { host } = await RealEtcd.start(t);
  const first = await EtcdCoordinator.connect({ hosts: [host], ttl: TTL });
  const candidate = first.stand('role');
  await until(() => isElected(candidate));
  const token = Number(candidate.token);
  const second = await connected(t, [host]);
  const other = second.stand('role');
  const another = second.stand('another role');
  await until(() => isElected(another));
  assert.equal(other.token, undefined);
  await first.close();
  assert.equal(candidate.token, undefined);
  await until(() => isElected(other));
  assert.ok(Number(other.token) > token);
});

test('without etcd nobody is elected, and connecting says so', { skip }, async (t) => {
  const etcd = await RealEtcd.start(t);
  const coordinator = await connected(t, [etcd.host]);
  const candidate = coordinator.stand('role');
  await until(() => isElected(candidate));
  const token = Number(candidate.token);
  await etcd.kill();
  await until(() => !isElected(candidate));
  await assert.rejects(EtcdCoordinator.connect({ hosts: [etcd.host] }), {
    code: 'SW_COORDINATION',
  });
  assert.notEqual(coordinator.problem, undefined);
  await etcd.start();
  await until(() => isElected(candidate));
  assert.ok(Number(candidate.token) >= token);
});

/** Another client of the store, of which a test says how patient it is. */
function impatientWriter(scope: Scope, url: string) {
  const { client } = attach(url, { create: false });
  scope.after(() => client.end());
  const { pool } = client;
  const { index } = client.open({ create: false });
  assert.ok(index instanceof HStoreIndex);
  index.table.patience = { ...PATIENCE, lapse: 200 };
  const token = () => pool.run(index.table.pairs[0].hashLease.holder()).token;
  const insert = (key: string) => {
    const request = index.newRequest();
    index.records.encode(request, key, 'v', 1);
    pool.enter();
    try {
      return pool.run(index.write(request, 0));
    } finally {
      pool.exit();
    }
  };
  return { token, insert };
}

test('the elected primary is killed, or stands still: the next one goes on', {
  skip,
}, async (t) => {
  const { host } = await RealEtcd.start(t);
  const store = newStore(t);
  const options = ['--etcd', host, '--etcd-ttl', String(TTL)];
  const { token } = impatientWriter(t, store.url);
  const keys = numbered('k', 50).sort();
  let primary = await startServer(t, store.url, 'both', options);
  let last = 0;
  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    for (const key of keys) store.set(key, signal);
    const before = token();
    assert.ok(before > last);
    last = before;
    const standby = new ServerProcess(t, store.url, ['--role', 'both', ...options]);
    await standby.says('standing by');
    const ended = primary.ended();
    primary.child.kill(signal);
    await standby.says('holds');
    for (const key of keys) store.increment(`count ${key}`);
    assert.deepEqual([...store.keys({ gte: 'k' })], keys);
    // One that stood still was ended: it would have written by what it had known.
    assert.equal(await ended, 'SIGKILL');
    assert.ok(token() > before);
    primary = standby;
  }
  for (const key of keys) assert.equal(store.get(`count ${key}`), '2');
  await primary.kill('SIGTERM');
  assert.deepEqual(checkSync(store.url).problems, []);
});

test('etcd is away: reads go on, writes wait for it or say so', { skip }, async (t) => {
  const etcd = await RealEtcd.start(t);
  const store = newStore(t);
  const options = ['--etcd', etcd.host, '--etcd-ttl', String(TTL)];
  const server = await startServer(t, store.url, 'both', options);
  store.set('k', 'v');
  await etcd.kill();
  await server.says('standing by', 2);
  const writer = impatientWriter(t, store.url);
  assert.throws(() => writer.insert('late'), { code: 'SW_NO_PRIMARY' });
  assert.equal(store.get('k'), 'v');
  assert.deepEqual([...store.keys({})], ['k']);
  await etcd.start();
  await server.says('holds', 2);
  store.set('k', 'w');
  assert.equal(store.get('k'), 'w');
  assert.equal(store.get('late'), 'v', 'what was asked for is done when there is a primary');
  await server.kill('SIGTERM');
  const other = new ServerProcess(t, store.url, ['--role', 'hash']);
  await assert.rejects(other.says('holds'), /the server ended/);
});
