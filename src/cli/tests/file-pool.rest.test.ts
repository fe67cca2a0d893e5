/** A pool in a file and a published data set in it, by the program in processes of its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { cities, keyOf, loadWords } from './support/cities.ts';
import { program, start, succeeds } from './support/program.ts';

/** In wine on a busy machine a program takes seconds to start. */
const TIMEOUT_MS = process.platform === 'win32' ? 1_800_000 : 300_000;

describe('stepwell on a file: pool', { timeout: TIMEOUT_MS }, () => {
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
    const records = keys.toReversed().map((key) => JSON.stringify({ key, value: `of ${key}` }));
    const loading = ['load', ordered, '-', '--format', 'jsonl'];
    assert.equal((await program(loading, Buffer.from(records.join('\n')))).code, 0);
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
    assert.equal(dumped.out.trim().split('\n').length, 4);
    const loaded = await program(['load', copy, '-', '--format', 'jsonl'], dumped.bytes);
    assert.equal(loaded.code, 0, loaded.err);
    assert.match(loaded.out, /loaded 3 records .*; the store holds 3\n/);
    assert.deepEqual((await succeeds('get', copy, 'bytes')).bytes, bytes);
    assert.equal((await succeeds('get', copy, 'text')).out, 'x\n"y"');
    assert.equal((await succeeds('get', copy, '')).out, '');
  });

  it('loads a published data set and dumps all of it', async () => {
    const { out } = await succeeds('load', url, ...loadWords(), '--store', 'cities');
    assert.match(out, /loaded 171,075 records .*; the store holds 171,075\n/);
    const dumped = await succeeds('dump', url, '--store', 'cities');
    const [, ...lines] = dumped.out.trimEnd().split('\n');
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
