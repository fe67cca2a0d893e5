/** Files in, files out: every format, every kind of damage, and the round trip of strange bytes. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { Key, Value } from '../../store/api.ts';
import { FakePools } from './support/fake-pools.ts';
import { type Outcome, Recorder, type Setting, stepwell } from './support/terminal.ts';

const URL = 'shm:x';
const folder = mkdtempSync(join(tmpdir(), 'stepwell-cli-'));
after(() => rmSync(folder, { recursive: true }));

interface Loaded extends Outcome {
  pools: FakePools;
  records: Record<string, Value | undefined>;
}

async function load(name: string, content: string | Uint8Array, more: string[] = []) {
  const file = join(folder, name);
  writeFileSync(file, content);
  return await loadFrom(['load', URL, file, ...more]);
}

async function loadFrom(words: string[], setting: Setting = {}): Promise<Loaded> {
  const pools = setting.pools ?? new FakePools();
  const outcome = await stepwell(words, { ...setting, pools });
  const records: Loaded['records'] = {};
  if (pools.pools.get(URL)?.has('default')) {
    let cursor = 0;
    do {
      const page = await pools.store(URL).scanPage(cursor);
      for (const { key, value } of page.entries) records[String(key)] = value;
      cursor = page.cursor;
    } while (cursor !== 0);
  }
  return { ...outcome, pools, records };
}

describe('load', () => {
  it('reads CSV: the first column is the key, the record the value', async () => {
    const csv = '\ufeffname,age\r\n"Doe, Jane",41\r\n\r\n"with ""quotes""\r\nand lines",007\r\n';
    const { code, out, records } = await load('people.csv', csv);
    assert.equal(code, 0);
    assert.match(out, /^loaded 2 records in .* \(\d.*records\/s\); the store holds 2\n$/);
    assert.deepEqual(records, {
      'Doe, Jane': '{"name":"Doe, Jane","age":"41"}',
      'with "quotes"\r\nand lines': '{"name":"with \\"quotes\\"\\r\\nand lines","age":"007"}',
    });
  });

  it('hands over sorted records all at once, for an ordered store', async () => {
    const { code, out, records, pools } = await load('s.csv', 'k,v\na,1\nb,2\n', ['--sorted']);
    assert.equal(code, 0);
    assert.match(out, /^loaded 2 records in /);
    assert.deepEqual(Object.keys(records), ['a', 'b']);
    assert.ok(pools.calls.some((call) => call.includes('"index":"chime"')));
  });

  it('stores nothing of records that are not sorted', async () => {
    const { code, err, records } = await load('u.csv', 'k,v\nb,1\na,2\n', ['--sorted']);
    assert.notEqual(code, 0);
    assert.match(err, /nothing was stored/);
    assert.match(err, /record 2/);
    assert.deepEqual(records, {});
  });

  it('reads TSV, and takes key and value columns', async () => {
    const tsv = 'a\tb\tc\n1\tx "q" y\tv1\n2\ty\tv2\n';
    const { records } = await load('t.tsv', tsv, ['--key', 'b,a', '--value', 'c']);
    assert.deepEqual(records, { 'x "q" y:1': 'v1', 'y:2': 'v2' });
  });

  it('knows the first column even when its name is a number', async () => {
    const { records } = await load('n.csv', 'z,1\nkey,v\n', ['--value', '1']);
    assert.deepEqual(records, { key: 'v' });
  });

  it('reads JSON lines: key or id is the key, the line itself the value', async () => {
    const lines =
      '\ufeff{"id": 7, "n": 12345678901234567890}\n\n  {"key":"k","id":2}\r\n{"id":true}';
    const { code, records } = await load('r.jsonl', lines);
    assert.equal(code, 0);
    assert.deepEqual(records, {
      7: '{"id": 7, "n": 12345678901234567890}',
      k: '{"key":"k","id":2}',
      true: '{"id":true}',
    });
  });

  it('reads a JSON array, and values that are no text as JSON', async () => {
    const { records } = await load('r.json', '[{"id":1,"v":[1,2]},{"id":2,"v":"text"}]', [
      '--value=v',
    ]);
    assert.deepEqual(records, { 1: '[1,2]', 2: 'text' });
  });

  it('unpacks .gz and reads standard input', async () => {
    const packed = await load('z.jsonl.gz', gzipSync('{"id":1}\n{"id":2}\n'));
    assert.deepEqual(Object.keys(packed.records), ['1', '2']);
    const stdin = 'id\n1\n2\n';
    const piped = await loadFrom(['load', URL, '-', '--format', 'csv'], { stdin });
    assert.deepEqual(Object.keys(piped.records), ['1', '2']);
    const unknown = await loadFrom(['load', URL, '-'], { stdin });
    assert.equal(unknown.code, 2);
    assert.match(unknown.err, /standard input; say --format/);
  });

  it('lets the last of equal keys win, and says how many there are', async () => {
    const { out, records } = await load('d.csv', 'k,v\na,1\nb,1\na,2\n', ['--value', 'v']);
    assert.match(out, /loaded 3 records .*; the store holds 2\n/);
    assert.deepEqual(records, { a: '2', b: '1' });
  });

  it('puts batches', async () => {
    const { pools } = await load('b.csv', 'k\n1\n2\n3\n4\n5\n', ['--batch', '2']);
    assert.deepEqual(pools.store(URL).batches, [2, 2, 1]);
  });

  it('stops at a bad record, says where, and keeps what came before', async () => {
    const cases: [string, string | Uint8Array, RegExp][] = [
      ['bad.jsonl', '{"id":1}\n\n{"id":2\n{"id":3}\n', /line 3: not JSON/],
      ['bad.jsonl', Buffer.from('{"id":1}\n{"id":"\xff"}\n', 'latin1'), /line 2: not well-formed/],
      ['bad.jsonl', '{"id":1}\n[1]\n', /line 2: the record is not an object/],
      ['bad.jsonl', '{"id":1}\n{"a":1}\n', /line 2: the record has no field 'key' or 'id'/],
      ['bad.jsonl', '{"id":1}\n{"id":null}\n', /line 2: field 'id' is no text/],
      ['bad.jsonl', '{"id":1}\n{"id":9007199254740993}\n', /line 2: .* too large to be exact/],
      ['bad.jsonl', '{"id":1}\n{"id":"\\ud800"}\n', /line 2: .* surrogate/],
      [
        'bad.jsonl',
        `{"id":1}\n{"id":"${'x'.repeat(65_536)}"}\n`,
        /line 2: the key has 65536 bytes/,
      ],
      ['bad.json', '[{"id":1},{"x":2}]', /record 2: the record has no field/],
      ['bad.csv', 'id,b\n1,2\n3\n', /line 3: /],
      ['bad.csv', 'id,b\n1,2\n3,"x"y\n', /line 3: /],
    ];
    for (const [name, content, message] of cases) {
      const { code, err, records } = await load(name, content);
      assert.equal(code, 3, err);
      assert.match(err, message);
      assert.match(err, /1 record stored before the end/);
      assert.deepEqual(Object.keys(records), ['1']);
    }
  });

  it('goes on with --skip-errors and counts', async () => {
    const lines = await load('s.jsonl', '{"id":1}\nnope\n{"id":2}\n{}\n', ['--skip-errors']);
    assert.equal(lines.code, 0);
    assert.match(lines.out, /loaded 2 records .*, skipped 2 bad records; the store holds 2\n/);
    assert.match(lines.err, /skipped: .*s\.jsonl, line 2: not JSON/);
    const cells = await load('s.csv', 'id,b\n1,2\n3\n4,5\n', ['--skip-errors']);
    assert.deepEqual(Object.keys(cells.records), ['1', '4']);
    assert.match(cells.out, /skipped 1 bad record;/);
    const many = await load('m.jsonl', 'x\n'.repeat(50), ['--skip-errors']);
    assert.equal(many.err.split('\n').length, 11);
  });

  it('refuses files that are no such thing', async () => {
    assert.match((await load('o.json', '{"id":1}\n{"id":2}\n')).err, /say --format jsonl/);
    assert.match((await load('o.json', '{"id":1}')).err, /not a JSON array/);
    assert.match((await load('o.json', Buffer.from([0x5b, 0xff]))).err, /not well-formed UTF-8/);
    const latin = Buffer.concat([Buffer.from('id\n1\n'), Buffer.from([0xe9, 0x0a])]);
    assert.match((await load('l.csv', latin)).err, /not well-formed UTF-8/);
    const cut = await load('c.jsonl.gz', gzipSync('{"id":1}\n').subarray(0, 20));
    assert.equal(cut.code, 3);
    assert.match(cut.err, /Z_BUF_ERROR/);
    assert.equal((await load('e.csv', '')).code, 0);
    assert.equal((await load('x.csv', 'a,b\n1,2\n', ['--key', 'c'])).code, 3);
    assert.equal((await load('x.bin', '')).code, 2);
    assert.equal((await load('x.csv', '', ['--format', 'xml'])).code, 2);
  });

  it('makes no pool for a file that is not there', async () => {
    const { code, err, pools } = await loadFrom(['load', URL, join(folder, 'none.csv')]);
    assert.equal(code, 3);
    assert.match(err, /ENOENT/);
    assert.equal(pools.pools.size, 0);
    const directory = await loadFrom(['load', URL, folder, '--format', 'csv']);
    assert.equal(directory.code, 3);
    assert.match(directory.err, /EISDIR/);
  });

  it('stops when interrupted', async () => {
    const signal = AbortSignal.abort();
    const stdin = '{"id":1}\n{"id":2}\n';
    const words = ['load', URL, '-', '--format=jsonl', '--batch=1'];
    const { code, err, records } = await loadFrom(words, { stdin, signal });
    assert.equal(code, 130);
    assert.match(err, /1 record stored before the end/);
    assert.deepEqual(Object.keys(records), ['1']);
  });

  it('shows progress on a terminal', async () => {
    const file = join(folder, 'p.csv');
    writeFileSync(file, `id\n${Array.from({ length: 100 }, (_, id) => id).join('\n')}\n`);
    const stderr = new Recorder(true);
    await stepwell(['load', URL, file, '--batch', '10'], { stderr });
    assert.match(stderr.text, /loading .*█.* records\/s/);
    assert.ok(stderr.text.endsWith('\r\x1b[2K'));
  });
});

describe('progress of load', () => {
  it('follows the records of a JSON array, which is read as a whole', async () => {
    const file = join(folder, 'p.json');
    writeFileSync(file, JSON.stringify(Array.from({ length: 100 }, (_, id) => ({ id }))));
    const stderr = new Recorder(true);
    await stepwell(['load', URL, file, '--batch', '10'], { stderr });
    const shares = [...stderr.text.matchAll(/([\d.]+)%/g)].map(([, share]) => Number(share));
    assert.deepEqual(shares, [9, 19, 29, 39, 49, 59, 69, 79, 89, 99, 99]);
  });
});

async function restored(format: string, entries: [Key, Value][]): Promise<FakePools> {
  const pools = new FakePools();
  await stepwell(['create', URL, '--store', 'default'], { pools });
  for (const [key, value] of entries) pools.store(URL).set(key, value);
  const dumped = await stepwell(['dump', URL, '--format', format], { pools });
  assert.equal(dumped.code, 0, dumped.err);
  const copy = new FakePools();
  const words = ['load', URL, '-', '--format', format];
  const loaded = await stepwell(words, { pools: copy, stdin: dumped.bytes });
  assert.equal(loaded.code, 0, loaded.err);
  return copy;
}

const STRANGE: [Key, Value][] = [
  ['', ''],
  ['plain', 'text'],
  ['quotes " and , and \t', '"\r\n,\t'],
  ['\ufeffmark', '\ufeff'],
  [' spaces ', ' \u00a0 '],
  ['lines', '\r'],
  ['nul\0', '\0'],
  [Buffer.from([0xff, 0xfe]), Buffer.from([0xc3, 0x28])],
  ['text as bytes', Buffer.from('well-formed')],
  ['no bytes', Buffer.alloc(0)],
  ['😀', '{"base64":"AAAA"}'],
  ['encoding', 'key=base64'],
];

describe('dump', () => {
  it('writes a record per line, and bytes that are no text as base64', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'a', 'x\ny'], { pools });
    pools.store(URL).set(Buffer.from([0xff]), Buffer.from([0xfe]));
    pools.store(URL).set('b', Buffer.from('text'));
    assert.equal(
      (await stepwell(['dump', URL], { pools })).out,
      '{"stepwell":{"index":"race"}}\n' +
        '{"key":"a","value":"x\\ny","version":1}\n' +
        '{"key":{"base64":"/w=="},"value":{"base64":"/g=="},"version":2}\n' +
        '{"key":"b","value":"text","version":3,"bytes":true}\n',
    );
    assert.equal(
      (await stepwell(['dump', URL, '--format', 'csv', '--match', '[ab]'], { pools })).out,
      'key,value,version,encoding\na,"x\ny",1,\nb,text,3,value=bytes\n',
    );
  });

  for (const format of ['jsonl', 'csv', 'tsv']) {
    it(`is restored by load as it was, in ${format}`, async () => {
      const copy = await restored(format, STRANGE);
      assert.equal(copy.store(URL).count, STRANGE.length);
      for (const [key, value] of STRANGE) assert.deepEqual(copy.store(URL).peek(key), value);
    });

    it(`is restored whatever the keys and values are, in ${format}`, async () => {
      const text = fc.string({ unit: 'binary' }).filter((made) => !/\p{Surrogate}/u.test(made));
      const bytes = fc.uint8Array({ maxLength: 8 }).map((made) => Buffer.from(made));
      const content = fc.oneof(text, fc.constantFrom('"', ',', '\n', '\t', '\r\n'), bytes);
      await fc.assert(
        fc.asyncProperty(fc.array(fc.tuple(content, content), { maxLength: 6 }), async (pairs) => {
          const entries = new Map(
            pairs.map((pair) => [Buffer.from(pair[0]).toString('hex'), pair]),
          );
          const copy = await restored(format, [...entries.values()]);
          assert.equal(copy.store(URL).count, entries.size);
          for (const [key, value] of entries.values()) {
            assert.deepEqual(copy.store(URL).peek(key), value);
          }
        }),
        { numRuns: 60 },
      );
    });
  }

  it('is an ordinary file where --key or --value says so', async () => {
    const { records } = await load('k.jsonl', '{"key":"a","value":"b"}\n', ['--key', 'value']);
    assert.deepEqual(records, { b: '{"key":"a","value":"b"}' });
    const other = await load('o.jsonl', '{"key":"a","value":"b","more":1}\n');
    assert.deepEqual(other.records, { a: '{"key":"a","value":"b","more":1}' });
  });

  it('whose base64 is damaged is refused', async () => {
    const { code, err } = await load('b.jsonl', '{"key":"a","value":{"base64":"%%"}}\n');
    assert.equal(code, 3);
    assert.match(err, /line 1: base64 text is damaged/);
  });

  it('stops quietly when nobody reads on', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'a', 'x'], { pools });
    const stdout = new Recorder();
    const gone = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
    queueMicrotask(() => stdout.fail(gone));
    const { code, err } = await stepwell(['dump', URL], { pools, stdout });
    assert.deepEqual([code, err], [0, '']);
    assert.equal(pools.openStores, 0);
  });

  it('is told incomplete when interrupted', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'a', 'x'], { pools });
    const { code, err } = await stepwell(['dump', URL], { pools, signal: AbortSignal.abort() });
    assert.equal(code, 130);
    assert.match(err, /not complete/);
  });
});
