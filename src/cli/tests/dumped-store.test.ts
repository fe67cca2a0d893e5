/** A dump describes its store, and `load` makes such a store, of every index. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type IndexName, openSync } from '../../index.ts';
import type { OpenOptions } from '../../store/api.ts';
import * as library from '../../store/open.ts';
import { freshUrl, keepOpen, SMALL } from '../../store/tests/support/pools.ts';
import { stepwell } from './support/terminal.ts';

const INDEXES = ['race', 'shard', 'sephash', 'chime', 'hopscotch', 'hstore'] as const;
const BOUNDS = [{}, { maxRecords: 1000, eviction: 'adaptive' }, { maxBytes: 100_000 }] as const;

async function run(words: string[], stdin?: string | Uint8Array) {
  return await stepwell(words, { library: async () => library, ...(stdin && { stdin }) });
}

async function load(url: string, stdin: string | Uint8Array, more: string[] = []) {
  return await run(['load', url, '-', '--format', 'jsonl', ...more], stdin);
}

/** A dump of a store with two records. */
async function dumpOf(t: TestContext, options: OpenOptions): Promise<Buffer> {
  const url = freshUrl(t, 'shm');
  const store = keepOpen(t, openSync(url, { ...SMALL, ...options }));
  store.set('a', '1');
  store.set('b', '2');
  const { code, bytes, err } = await run(['dump', url]);
  assert.equal(code, 0, err);
  return bytes;
}

/** What the catalog says of the default store of a pool. */
async function described(url: string) {
  return await library.storeOptions(url, 'default');
}

for (const index of INDEXES) {
  test(`a dump of ${index} is restored with its index and its bound`, async (t) => {
    for (const bound of BOUNDS) {
      const dumped = await dumpOf(t, { index, ...bound });
      const eviction = 'maxBytes' in bound ? { eviction: 'lru' } : {};
      const stepwellLine = { stepwell: { index, ...bound, ...eviction } };
      assert.equal(`${dumped}`.split('\n')[0], JSON.stringify(stepwellLine));
      const to = freshUrl(t, 'shm');
      library.createSync(to, { ...SMALL, size: '64m' });
      const loaded = await load(to, dumped);
      assert.equal(loaded.code, 0, loaded.err);
      assert.match(loaded.out, /^loaded 2 records .*; the store holds 2\n$/);
      assert.deepEqual(await described(to), stepwellLine.stepwell);
      assert.equal(keepOpen(t, openSync(to)).get('b'), '2');
    }
  });
}

test('a dump names the parameters that were chosen, and no others', async (t) => {
  const index = { kind: 'chime', span: 32 } as const;
  const dumped = await dumpOf(t, { index, maxRecords: 500 });
  const [line] = `${dumped}`.split('\n');
  assert.deepEqual(JSON.parse(line), {
    stepwell: { index, maxRecords: 500, eviction: 'lru' },
  });
  const to = freshUrl(t, 'shm');
  assert.equal((await load(to, dumped)).code, 0);
  assert.deepEqual((await described(to)).index, index);
});

async function loadedAs(t: TestContext, line: string, more: string[] = [], made?: IndexName) {
  const url = freshUrl(t, 'shm');
  library.createSync(url, { ...SMALL, ...(made && { index: made }) });
  const outcome = await load(url, `${line}\n{"key":"a","value":"1"}\n`, more);
  const options = outcome.code === 0 ? await described(url) : undefined;
  return { ...outcome, options };
}

const CHIME = '{"stepwell":{"index":{"kind":"chime","span":32},"maxRecords":9,"eviction":"lfu"}}';

test('--index wins over the dump, whose bound stays', async (t) => {
  const { options } = await loadedAs(t, CHIME, ['--index', 'race']);
  assert.deepEqual(options, { index: 'race', maxRecords: 9, eviction: 'lfu' });
  const { options: plain } = await loadedAs(t, '{"key":"b","value":"2"}', ['--index', 'chime']);
  assert.deepEqual(plain, { index: 'chime' });
});

test('a store that is there keeps its index, and load says so', async (t) => {
  const { code, err, options } = await loadedAs(t, CHIME, [], 'sephash');
  assert.equal(code, 0);
  assert.match(err, /^note: store default .* sephash, not chime; it stays as it is\n$/);
  assert.deepEqual(options, { index: 'sephash' });
  const same = await loadedAs(t, '{"stepwell":{"index":"sephash"}}', [], 'sephash');
  assert.deepEqual([same.code, same.err], [0, '']);
  const other = await loadedAs(t, CHIME, ['--index', 'race'], 'sephash');
  assert.equal(other.code, 3);
  assert.match(other.err, /sephash, not race \(SW_STORE_MISMATCH\)/);
});

test('--sorted makes a store of chime, with the parameters of a dump of chime', async (t) => {
  const span = '{"stepwell":{"index":{"kind":"chime","span":32}}}';
  const sorted = await loadedAs(t, span, ['--sorted']);
  assert.deepEqual(sorted.options, { index: { kind: 'chime', span: 32 } });
  const other = await loadedAs(t, '{"stepwell":{"index":"race"}}', ['--sorted']);
  assert.deepEqual(other.options, { index: 'chime' });
  const bounded = await loadedAs(t, CHIME, ['--sorted']);
  assert.equal(bounded.code, 2);
  assert.match(bounded.err, /bounded store, which --sorted cannot fill/);
});

test('a description that cannot be followed is refused, and no store is made', async (t) => {
  for (const [line, message] of [
    ['{"stepwell":{"index":"btree"}}', /line 1: no index is called btree; .*--index INDEX/],
    ['{"stepwell":{"index":{"kind":"race","sizes":3}}}', /line 1: .* has no parameter sizes/],
    ['{"stepwell":{"index":"race","secret":"x"}}', /line 1: the store has 'secret'/],
    ['{"stepwell":{"index":"race","maxRecords":-1}}', /line 1: maxRecords is 1 or more/],
  ] as const) {
    const { code, err } = await loadedAs(t, line);
    assert.equal(code, 3, err);
    assert.match(err, message);
  }
  const saved = await loadedAs(t, '{"stepwell":{"index":"btree"}}', ['--index', 'race']);
  assert.deepEqual(saved.options, { index: 'race' });
});

test('dumps without a description, and other files, load as they did', async (t) => {
  const { options } = await loadedAs(t, '{"key":"b","value":"2","version":7}');
  assert.deepEqual(options, { index: 'race' });
  const url = freshUrl(t, 'shm');
  library.createSync(url, SMALL);
  const foreign = ['{"id":1,"stepwell":{"index":"chime"}}', '{"id":2,"stepwell":"well"}'];
  assert.equal((await load(url, `${foreign.join('\n')}\n`)).code, 0);
  const store = keepOpen(t, openSync(url));
  assert.deepEqual([store.get('1'), store.get('2')], foreign);
  assert.deepEqual(await described(url), { index: 'race' });
});

test('a dump is a file of records for --key, after its first line', async (t) => {
  const { code, options } = await loadedAs(t, CHIME, ['--key', 'key', '--value', 'value']);
  assert.equal(code, 0);
  assert.equal(options?.maxRecords, 9);
});
