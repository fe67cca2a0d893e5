/** The commands on pools over the network, in processes of their own. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createClient } from 'redis';
import { open } from '../../store/open.ts';
import type { CheckReport, PoolReport } from '../../store/reports.ts';
import { temporaryDirectory } from '../../store/tests/support/pools.ts';
import { startNodes } from '../../store/tests/support/remote.ts';
import { type Ended, program, startServer } from './support/program.ts';

async function succeeds(...words: string[]): Promise<Ended> {
  const ended = await program(words);
  assert.equal(ended.code, 0, `${words.join(' ')}: ${ended.err}`);
  return ended;
}

async function refused(code: string, ...words: string[]): Promise<void> {
  const ended = await program(words);
  assert.notEqual(ended.code, 0);
  assert.match(ended.err, new RegExp(`\\(${code}\\)`), words.join(' '));
}

test('a pool on two memory nodes is made, looked into, checked and removed', async (scope) => {
  const { servers, url } = await startNodes(scope, 2, { bytes: 16 * 2 ** 20 });
  await refused('SW_POOL_NOT_FOUND', 'inspect', url);
  const made = await succeeds('create', url, '--store', 'a', '--index', 'chime');
  assert.match(made.out, /created tcp:.* \(up to 32 MiB\)/);
  await refused('SW_POOL_EXISTS', 'create', url);
  const store = await open(url, { store: 'a', client: 'keeper', maxClients: 8 });
  scope.after(() => store.close());
  for (let i = 0; i < 300; i++) await store.set(`key${i}`, 'v'.repeat(i));
  const report = JSON.parse((await succeeds('inspect', url, '--json')).out) as PoolReport;
  const names = report.stores.map(({ name, index, records }) => [name, index, records]);
  assert.deepEqual(names, [['a', 'chime', 300]]);
  const clients = report.clients.map(({ name, alive, self }) => [name, alive, self]);
  assert.deepEqual(clients, [
    ['keeper', true, false],
    ['stepwell inspect', true, true],
  ]);
  assert.match((await succeeds('inspect', url)).out, /Path +\(memory of its nodes\)/);
  const checked = JSON.parse((await succeeds('check', url, '--json')).out) as CheckReport;
  assert.deepEqual(checked.problems, []);
  assert.equal(checked.stores[0].records, 300);
  const [first, second] = url.slice('tcp://'.length).split(',');
  await refused('SW_INVALID_URL', 'destroy', `tcp://${second},${first}`);
  await refused('SW_POOL_BUSY', 'destroy', url);
  await refused('SW_INVALID_ARGUMENT', 'destroy', `${url}/a`);
  await succeeds('destroy', url, '--force');
  // It was revoked, and finds nothing to come back to.
  await assert.rejects(store.get('key1'), { code: 'SW_POOL_NOT_FOUND' });
  for (const { memory } of servers) {
    assert.ok(
      memory.regions.every(({ i64 }) => i64.every((word) => word === 0n)),
      'all blank',
    );
  }
  const again = await open(url, { maxClients: 8 });
  await again.set('k', 'v');
  assert.equal(await again.get('k'), 'v');
  await again.close();
  await succeeds('destroy', url);
});

test('stores of several indexes are made in one pool, named in the URL or by option', async (scope) => {
  const { url } = await startNodes(scope, 2, { bytes: 16 * 2 ** 20 });
  assert.match((await succeeds('create', `${url}/a`)).out, /created tcp:.*\/a \(up to 32 MiB\)/);
  const { out } = await succeeds('create', `${url}/b`, '--index', 'chime');
  assert.match(out, /created store b in tcp:/);
  await succeeds('create', url, '--store', 'c', '--index', 'hstore', '--set', 'buckets=64,rows=64');
  await refused('SW_STORE_EXISTS', 'create', `${url}/b`);
  await refused('SW_INVALID_ARGUMENT', 'create', url, '--store', 'd', '--index', 'btree');
  const report = JSON.parse((await succeeds('inspect', url, '--json')).out) as PoolReport;
  const kinds = report.stores.map(({ name, index, state }) => `${name} ${index} ${state}`);
  assert.deepEqual(kinds, ['a race ready', 'b chime ready', 'c hstore ready']);
});

test('records go in and out over the network, by every command that has a URL', async (scope) => {
  const { url } = await startNodes(scope, 2, { bytes: 16 * 2 ** 20 });
  await succeeds('create', url, '--store', 'o', '--index', 'chime');
  const store = ['--store', 'o'];
  await succeeds('set', url, 'a', '1', ...store);
  assert.equal((await program(['set', url, 'a', '2', '--insert', ...store])).code, 1);
  assert.equal((await succeeds('get', url, 'a', ...store)).out, '1');
  const dumped = await succeeds('dump', url, ...store);
  const [line, record] = dumped.out.split('\n');
  assert.equal(line, '{"stepwell":{"index":"chime"}}');
  assert.match(record, /^\{"key":"a","value":"1","version":\d+\}$/);
  const loaded = await program(['load', `${url}/p`, '-', '--format=jsonl'], dumped.bytes);
  assert.equal(loaded.code, 0, loaded.err);
  assert.equal((await succeeds('scan', `${url}/p`, '--keys')).out, 'a\n');
  const file = join(temporaryDirectory(scope), 'records.jsonl');
  writeFileSync(file, '{"key":"b","value":"2"}\n{"key":"c","value":"3"}\n');
  await succeeds('load', url, file, '--value', 'value', ...store);
  const scanned = await succeeds('scan', url, '--gte', 'b', '--reverse', '--keys', ...store);
  assert.equal(scanned.out, 'c\nb\n');
  assert.equal((await succeeds('del', url, 'b', 'c', 'd', ...store)).out, '2\n');
  assert.equal((await succeeds('scan', url, '--count', ...store)).out, '1\n');
  assert.match((await succeeds('nodes', url, ...store)).out, /127\.0\.0\.1/);
});

test('check finds what is wrong in a pool over the network', async (scope) => {
  const { servers, url } = await startNodes(scope, 1, { bytes: 16 * 2 ** 20 });
  await succeeds('set', url, 'key', 'value '.repeat(20));
  const [{ u8 }] = servers[0].memory.regions;
  const at = Buffer.from(u8.buffer, u8.byteOffset, u8.length).lastIndexOf('value value');
  assert.ok(at > 0);
  u8[at] ^= 1;
  const ended = await program(['check', url]);
  assert.equal(ended.code, 1, ended.err);
  assert.match(ended.out, /problem:/);
});

test('a store over the network is served to Redis clients', async (scope) => {
  const { url } = await startNodes(scope, 1, { bytes: 32 * 2 ** 20 });
  await succeeds('create', url, '--store', 'ordered', '--index', 'chime');
  const server = await startServer([url, '--store', 'ordered']);
  scope.after(() => server.stop('SIGKILL').then(() => {}));
  const client = createClient({ socket: { host: '127.0.0.1', port: server.port } });
  client.on('error', () => {});
  await client.connect();
  scope.after(() => client.destroy());
  await Promise.all(Array.from({ length: 50 }, (_, i) => client.set(`key${i}`, `value${i}`)));
  const values = await Promise.all(Array.from({ length: 50 }, (_, i) => client.get(`key${i}`)));
  assert.deepEqual(
    values,
    values.map((_, i) => `value${i}`),
  );
  assert.equal(await client.incr('n'), 1);
  assert.equal(await client.incrBy('n', 41), 42);
  assert.deepEqual(await client.mGet(['key1', 'nothing', 'key2']), ['value1', null, 'value2']);
  assert.equal(await client.dbSize(), 51);
  const range = await client.sendCommand(['SW.RANGE', '[key10', '(key13']);
  assert.ok(Array.isArray(range) && range.includes('key11'), JSON.stringify(range));
  await assert.rejects(client.incr('key1'), /not an integer/);
  assert.equal(await client.del(['key1', 'key2', 'nothing']), 2);
  const scanned: string[] = [];
  for await (const page of client.scanIterator({ MATCH: 'key4*' })) scanned.push(...page);
  assert.equal(scanned.length, 11);
  assert.equal(await server.stop('SIGTERM'), 0);
  // What was served is there for others.
  assert.equal((await succeeds('get', url, 'key3', '--store', 'ordered')).out, 'value3');
});

test('a store over the network is measured', async (scope) => {
  const { url } = await startNodes(scope, 1, { bytes: 32 * 2 ** 20 });
  const words = ['--records', '200', '--seconds', '0.05', '--clients', '2', '--json', '-'];
  const { results } = JSON.parse((await succeeds('bench', url, ...words)).out);
  assert.deepEqual(
    results.map(({ operation }: { operation: string }) => operation),
    ['insert', 'get', 'set'],
  );
  await refused('SW_POOL_NOT_FOUND', 'inspect', url);
});
