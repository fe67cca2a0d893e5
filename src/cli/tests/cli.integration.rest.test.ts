/** The program as a whole, in processes of its own, on real pools and with a real Redis client. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createClient } from 'redis';
import { packageVersion } from '../context.ts';
import { cities, keyOf, loadWords } from './support/cities.ts';
import { program, type Server, startServer, succeeds } from './support/program.ts';

/** Enough to see all parts of the file; file-pool.rest.test.ts loads all of it. */
const sample = cities.filter((_, at) => at % 171 === 0);

describe('stepwell serve on a shm: pool', { timeout: 300_000 }, () => {
  const url = `shm:stepwell-cli-test-${process.pid}`;
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-cli-'));
  let first: Server;
  let second: Server;
  let clients: ReturnType<typeof createClient>[] = [];

  before(async () => {
    first = await startServer([url, '--size', '1g']);
    second = await startServer([url]);
    clients = [first, second].map(({ port }) => createClient({ url: `redis://127.0.0.1:${port}` }));
    await Promise.all(clients.map((client) => client.connect()));
  });

  after(async () => {
    for (const client of clients) client.destroy();
    await program(['destroy', url, '--force']);
    rmSync(folder, { recursive: true });
  });

  it('says where it serves and how to look inside', () => {
    assert.match(first.printed, new RegExp(`redis-cli -p ${first.port}\n`));
    assert.match(first.printed, new RegExp(`npx stepwell inspect ${url}\n`));
    assert.match(first.printed, /up to 1 GiB/);
  });

  it('gives on every port what another process loads', async () => {
    const file = join(folder, 'cities.json');
    writeFileSync(file, JSON.stringify(sample));
    await succeeds('load', url, ...loadWords(file));
    for (const client of clients) {
      assert.equal(await client.dbSize(), sample.length);
      const values = await client.mGet(sample.map(keyOf));
      assert.deepEqual(
        values,
        sample.map((city) => JSON.stringify(city)),
      );
    }
  });

  it('shows a write on one port at once on the other', async () => {
    const [one, other] = clients;
    for (let turn = 0; turn < 200; turn++) {
      const [writer, reader] = turn % 2 === 0 ? [one, other] : [other, one];
      await writer.set('turn', String(turn));
      assert.equal(await reader.get('turn'), String(turn));
    }
    assert.equal((await succeeds('get', url, 'turn')).out, '199');
    await succeeds('set', url, 'turn', 'from the command line');
    assert.equal(await one.get('turn'), 'from the command line');
  });

  it('is not destroyed under its clients', async () => {
    const refused = await program(['destroy', url]);
    assert.equal(refused.code, 3);
    assert.match(refused.err, /SW_POOL_BUSY/);
    assert.equal(await clients[0].get('turn'), 'from the command line');
  });

  it('tells that a port is taken', async () => {
    const taken = await program(['serve', url, '--port', String(first.port)]);
    assert.equal(taken.code, 3);
    assert.match(taken.err, /^stepwell: .*\(SW_ADDRESS_IN_USE\)\n$/);
  });

  it('ends by Ctrl-C or SIGTERM with code 0 and keeps the pool', async () => {
    for (const client of clients) client.destroy();
    clients = [];
    assert.equal(await first.stop('SIGINT'), 0);
    assert.equal(await second.stop('SIGTERM'), 0);
    assert.match(first.printed, /the pool is kept\n$/);
    assert.equal((await succeeds('get', url, 'turn')).out, 'from the command line');
    const { clients: left } = JSON.parse((await succeeds('inspect', url, '--json')).out);
    assert.deepEqual(
      (left as { self: boolean }[]).filter(({ self }) => !self),
      [],
      'nobody is left attached',
    );
    assert.match((await succeeds('check', url)).out, /every invariant holds/);
    await succeeds('destroy', url);
  });
});

describe('stepwell bench', { timeout: 120_000 }, () => {
  const quick = ['--records', '1000', '--seconds', '0.05', '--clients', '2', '--json', '-'];

  it('measures in memory', async () => {
    const report = JSON.parse((await succeeds('bench', ...quick)).out);
    const results = report.results as { operation: string; median: number }[];
    assert.deepEqual(
      results.map(({ operation }) => operation),
      ['insert', 'get', 'set'],
    );
    assert.ok(results.every(({ median }) => median > 0));
  });

  it('leaves no pool behind that it made', async () => {
    const url = `shm:stepwell-cli-bench-${process.pid}`;
    await succeeds('bench', url, ...quick);
    assert.match((await program(['inspect', url])).err, /SW_POOL_NOT_FOUND/);
  });
});

describe('stepwell without a pool', { timeout: 60_000 }, () => {
  it('helps, tells its version and refuses what it does not know', async () => {
    assert.match((await succeeds()).out, /Usage:\n {2}\$ stepwell <command>/);
    assert.match((await succeeds('load', '--help')).out, /Examples:/);
    const { version } = createRequire(import.meta.url)('../../../package.json');
    assert.equal((await succeeds('--version')).out, `stepwell ${version}\n`);
    assert.equal((await program(['gett'])).code, 2);
  });

  it('has no version when it is bundled into a program without a package', () => {
    assert.equal(packageVersion('file:///nowhere/at/all/program.js'), 'unknown');
  });
});
