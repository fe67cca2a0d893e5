/** Keys and values of every byte, through the commands and back, on real pools. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Key, Value } from '../../store/api.ts';
import * as library from '../../store/open.ts';
import { openSync } from '../../store/open.ts';
import { freshUrl, keepOpen, SMALL } from '../../store/tests/support/pools.ts';
import { stepwell } from './support/terminal.ts';

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => byte);
const LONG_KEY = new Uint8Array(65_535).fill(0xff);
/** Of every length of a key that is a border, and of both types of values. */
const RECORDS: readonly [Key, Value][] = [
  ...Array.from(EVERY_BYTE, (byte): [Key, Value] => [Uint8Array.of(byte), Uint8Array.of(byte)]),
  [new Uint8Array(), new Uint8Array()],
  [EVERY_BYTE, EVERY_BYTE],
  [LONG_KEY, 'of the longest key'],
  ['text', ''],
  ['quotes "," and\r\nlines\t', ' "a",\tb\r\n\ufeff'],
  ['bytes that are text', Buffer.from('text')],
  [Uint8Array.of(0, 10, 13, 34, 44, 9), '\0\n\r",\t'],
];

async function run(words: string[], stdin?: Uint8Array) {
  const outcome = await stepwell(words, { library: async () => library, stdin });
  assert.equal(outcome.code, 0, `${words.join(' ')}: ${outcome.err}`);
  return outcome;
}

/** What is in a store, in its order, values with their types. */
function contentOf(t: TestContext, url: string): [string, Value][] {
  const store = keepOpen(t, openSync(url, { create: false, keys: 'bytes' }));
  return [...store.scan()].map(([key, value]) => [
    Buffer.from(key as Uint8Array).toString('hex'),
    typeof value === 'string' ? value : Uint8Array.from(value),
  ]);
}

function ordered(t: TestContext, records: readonly [Key, Value][] = []): string {
  const url = freshUrl(t, 'shm');
  keepOpen(t, openSync(url, { ...SMALL, index: 'chime' })).setMany(records);
  return url;
}

const EXPORTS = [
  ['dump'],
  ['scan'],
  ['scan', '--hex'],
  ['scan', '--base64'],
  ['scan', '--hex', '--reverse'],
];
for (const [command, ...options] of EXPORTS) {
  for (const format of ['jsonl', 'csv', 'tsv']) {
    const what = [command, ...options, '--format', format].join(' ');
    test(`\`${what}\` is restored by \`load\`, whatever the bytes are`, async (t) => {
      const from = ordered(t, RECORDS);
      const { bytes } = await run([command, from, ...options, '--format', format]);
      const to = ordered(t);
      const { out } = await run(['load', to, '-', '--format', format], bytes);
      assert.match(out, new RegExp(`loaded ${RECORDS.length} records`));
      assert.deepEqual(contentOf(t, to), contentOf(t, from));
    });
  }
}

for (const notation of ['hex', 'base64'] as const) {
  const option = `--${notation}`;
  const written = (content: Key | Value) => Buffer.from(content as string).toString(notation);

  test(`set, get, scan and del take and give ${notation}`, async (t) => {
    const url = ordered(t);
    for (const [key, value] of RECORDS) {
      // `-` is standard input, and no key or value.
      await run(['set', url, '--store=default', option, '--', written(key), written(value)]);
    }
    for (const [key, value] of RECORDS) {
      assert.equal((await run(['get', url, written(key), option])).out, `${written(value)}\n`);
    }
    const keys = RECORDS.map(([key]) => Buffer.from(key as string)).sort(Buffer.compare);
    const lines = async (...words: string[]) =>
      (await run(['scan', url, '--keys', option, ...words])).out.split('\n').slice(0, -1);
    assert.deepEqual(await lines(), keys.map(written));
    assert.deepEqual(await lines('--reverse'), keys.toReversed().map(written));
    const [low, high] = [Uint8Array.of(0x80), Uint8Array.of(0xff)];
    const between = keys.filter((key) => key[0] >= 0x80 && Buffer.compare(key, high) < 0);
    const bounds = ['--gte', written(low), '--lt', written(high)];
    assert.deepEqual(await lines(...bounds), between.map(written));
    assert.deepEqual(await lines('--prefix', written(high)), [high, LONG_KEY].map(written));
    const { out } = await run(['scan', url, '--prefix', written(EVERY_BYTE), option]);
    const both = { key: written(EVERY_BYTE), value: written(EVERY_BYTE) };
    assert.deepEqual(JSON.parse(out), { ...both, encoding: notation });
    assert.equal((await run(['del', url, option, ...keys.map(written)])).out, `${keys.length}\n`);
  });
}

test('a record in another notation than it says is damaged', async (t) => {
  const url = ordered(t);
  const load = async (line: string) =>
    await stepwell(['load', url, '-', '--format', 'jsonl'], {
      library: async () => library,
      stdin: line,
    });
  const damaged = await load('{"key":"0g","value":"","encoding":"hex"}\n');
  assert.equal(damaged.code, 3);
  assert.match(damaged.err, /line 1: hex text is damaged/);
  const noText = await load('{"key":"00","value":"ff","encoding":"hex","text":true}\n');
  assert.match(noText.err, /line 1: the value is marked as text and is none/);
  // Records of other programs that look alike are records, and no dump.
  const own = '{"key":"red","value":{"hex":"#ff0000"}}';
  assert.equal((await load(`${own}\n`)).code, 0);
  assert.deepEqual(contentOf(t, url), [[Buffer.from('red').toString('hex'), own]]);
});

test('a key that is too long is wrong usage', async (t) => {
  const url = ordered(t);
  for (const words of [
    ['get', url],
    ['set', url, '--store=default'],
    ['del', url],
  ]) {
    const { code, err } = await stepwell([...words, 'x'.repeat(65_536)], {
      library: async () => library,
      stdin: 'value',
    });
    assert.equal(code, 2);
    assert.match(err, /at most 65535 bytes.*\(SW_INVALID_KEY\)\n$/);
  }
});

for (const format of ['jsonl', 'csv', 'tsv']) {
  test(`a dump in ${format} says when records expire, and load restores it`, async (t) => {
    const [from, to] = [freshUrl(t, 'shm'), freshUrl(t, 'shm')];
    const at = Date.now() + 1e7;
    const store = keepOpen(t, openSync(from, SMALL));
    store.set('ever', 'e');
    store.set('until', 'u', { expiresAt: at });
    store.set('slides', 's', { ttlMs: 5e6, sliding: true });
    store.set('gone', 'g', { expiresAt: 1 });
    const { bytes } = await run(['dump', from, '--format', format]);
    keepOpen(t, openSync(to, SMALL));
    await run(['load', to, '-', '--format', format], bytes);
    const loaded = keepOpen(t, openSync(to));
    const { entries } = loaded.scanPage(0, 1000);
    const found = entries.map(({ key, value, expires }) => [key, value, expires]);
    assert.deepEqual(found.sort(), [
      ['ever', 'e', undefined],
      ['slides', 's', { ttlMs: 5e6, sliding: true }],
      ['until', 'u', { expiresAt: at }],
    ]);
  });
}

test('a record that expires does not go with --sorted, and nothing is stored', async (t) => {
  const url = ordered(t);
  const line = '{"key":"k","value":"v","expiresAt":4000000000000}\n';
  const outcome = await stepwell(['load', url, '-', '--format', 'jsonl', '--sorted'], {
    library: async () => library,
    stdin: Buffer.from(line),
  });
  assert.equal(outcome.code, 3);
  assert.match(outcome.err, /a record that expires does not go with --sorted/);
});
