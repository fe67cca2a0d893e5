/**
 * The way from one layout version to the next: `stepwell dump` of the version that made the pool,
 * `stepwell load` of this one. The fixtures are a pool of layout version 5 and the dump that the
 * program of commit 59b9a54 wrote of it.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { LAYOUT_VERSION } from '../../pool/layout.ts';
import type { Key, Value } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { program } from './support/program.ts';

const OLD = 5;
const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);

/** What was stored in the old pool. */
const RECORDS: readonly (readonly [Key, Value])[] = [
  ['text', 'a value'],
  ['', 'the empty key'],
  ['empty', ''],
  ['no bytes', new Uint8Array(0)],
  ['text as bytes', new TextEncoder().encode('a value')],
  ['all bytes', everyByte],
  [everyByte, 'a key of all bytes'],
  [new Uint8Array([0xff]), new Uint8Array([0xfe, 0x00])],
  ['signs', 'quotes " \\ tabs\t lines\r\n zero \0 separators \u2028 emoji 👋'],
  ['ключ', 'значение'],
  ['k'.repeat(65_535), 'the longest key'],
  ['chained', 'v'.repeat(100_000)],
  ['counter', '42'],
  ['replaced', 'new'],
  ...Array.from({ length: 200 }, (_, i) => [`record ${i}`, `${i * i}`] as const),
];

describe('a pool of an older layout version', { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-upgrade-'));
  after(() => rmSync(folder, { recursive: true }));
  const old = `file:${join(folder, 'old.pool')}`;
  writeFileSync(join(folder, 'old.pool'), gunzipSync(readFileSync(fixture('layout-5.pool.gz'))));

  it('is refused by every command, with what to do, and is not changed', async () => {
    const before = readFileSync(join(folder, 'old.pool'));
    for (const words of [['dump'], ['get', 'text'], ['check'], ['inspect'], ['stores']]) {
      const [command, ...more] = words;
      const { code, out, err } = await program([command, old, ...more]);
      assert.equal(code, 3, command);
      assert.equal(out, '');
      assert.match(err, new RegExp(`layout version ${OLD}.* ${LAYOUT_VERSION}\\b`));
      assert.match(err, /`stepwell dump` of the version that made it.*`stepwell load` of this one/);
      assert.match(err, /\(SW_POOL_VERSION\)\n$/);
    }
    assert.ok(readFileSync(join(folder, 'old.pool')).equals(before));
  });

  for (const index of ['race', 'chime']) {
    it(`is loaded from the dump of the version that made it, into the index ${index}`, async () => {
      const url = `file:${join(folder, `${index}.pool`)}`;
      const made = await program(['create', url, '--size', '64m', '--index', index]);
      assert.equal(made.code, 0, made.err);
      const loaded = await program(['load', url, fixture('layout-5.jsonl.gz')]);
      assert.equal(loaded.code, 0, loaded.err);
      assert.match(loaded.out, /^loaded 214 records/);
      const store = openSync(url, { create: false });
      for (const [key, value] of RECORDS) assert.deepEqual(store.get(key), value);
      assert.equal(store.size, RECORDS.length);
      store.close();
      const checked = await program(['check', url]);
      assert.equal(checked.code, 0, checked.out);
    });
  }
});
