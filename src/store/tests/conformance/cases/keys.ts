import assert from 'node:assert/strict';
import type { AsyncStore, Key, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { patternBytes } from '../../support/pools.ts';
import { collect, type Suite } from './suite.ts';

/** Around every boundary of the codec, the hash, the slot's length field and the key's length. */
const LENGTHS = [
  1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 255, 256, 1000, 4096,
  16_279, 16_288, 16_289, 16_296, 16_297, 16_304, 16_305, 16_320, 16_321, 20_000, 32_768, 65_534,
  65_535,
];

const bytes = (...values: number[]) => Uint8Array.from(values);

async function roundTrip(s: AsyncStore<Value>, key: Key): Promise<void> {
  assert.equal(await s.get(key), undefined);
  assert.equal(await s.delete(key), false);
  assert.equal(await s.insert(key, 'first'), true);
  assert.equal(await s.insert(key, 'again'), false);
  assert.equal(await s.get(key), 'first');
  assert.equal(await s.update(key, 'second value'), true);
  assert.equal(await s.get(key), 'second value');
  assert.equal(await s.has(key), true);
}

export function keyCases({ check }: Suite): void {
  check('the empty key is a key', async ({ s }) => {
    await roundTrip(s, '');
    assert.equal(await s.get(new Uint8Array(0)), 'second value');
    assert.deepEqual(await collect(s.keys()), ['']);
    assert.equal(await s.delete(''), true);
    assert.equal(await s.get(''), undefined);
  });

  check('keys of every length, as text and as bytes', async ({ s }) => {
    for (const length of LENGTHS) {
      await roundTrip(s, 'k'.repeat(length));
      await roundTrip(s, patternBytes(length, length));
    }
    for (const length of LENGTHS) {
      assert.equal(await s.get(Buffer.from('k'.repeat(length))), 'second value');
      assert.equal(await s.take(patternBytes(length, length)), 'second value');
      assert.equal(await s.take('k'.repeat(length)), 'second value');
    }
    assert.equal(await s.size(), 0);
  });

  check('text beyond ASCII is its UTF-8 bytes as a key', async ({ s }) => {
    for (const key of ['é', 'ключ', '鍵', '🗝️', `${'a'.repeat(47)}é`, 'é'.repeat(24), '\ufeffbom']) {
      await roundTrip(s, key);
      assert.equal(await s.get(Buffer.from(key)), 'second value');
    }
    assert.equal(await s.get('bom'), undefined);
  });

  check('a key of 65,535 bytes of three-byte characters', async ({ s }) => {
    await roundTrip(s, '鍵'.repeat(21_845));
    await rejectsCode('SW_INVALID_KEY', () => s.set(`${'鍵'.repeat(21_845)}x`, 'v'));
  });

  check('keys that differ only in trailing zero bytes are different keys', async ({ s }) => {
    const keys = [0, 1, 2, 6, 7, 8, 15, 16, 31].map((zeros) => [97, ...new Array(zeros).fill(0)]);
    keys.push([], [0], [0, 0]);
    for (const key of keys) await s.set(bytes(...key), `length ${key.length}: ${key[0]}`);
    assert.equal(await s.size(), keys.length);
    for (const key of keys) {
      assert.equal(await s.get(bytes(...key)), `length ${key.length}: ${key[0]}`);
    }
    assert.equal(await s.delete(bytes(97, 0)), true);
    assert.equal(await s.get('a'), 'length 1: 97');
    assert.equal(await s.get('a\0'), undefined);
    assert.equal(await s.get('a\0\0'), 'length 3: 97');
  });

  check('keys that share long beginnings', async ({ s }) => {
    const common = 'p'.repeat(300);
    for (let i = 0; i < 40; i++) await s.set(common + i, `v${i}`);
    for (let i = 0; i < 40; i++) assert.equal(await s.get(common + i), `v${i}`);
    assert.equal(await s.get(common), undefined);
  });

  check('keys come back as text when they are well-formed UTF-8, else as bytes', async ({ s }) => {
    const invalid = [bytes(0xff), bytes(0xc3, 0x28), bytes(0xed, 0xa0, 0x80), bytes(0x61, 0x80)];
    const texts = ['plain', 'ключ', '\ufffd', '\ufeffbom', 'nul\0inside', ''];
    for (const key of [...invalid, ...texts]) await s.set(key, 'v');
    for (const key of invalid) assert.equal(await s.get(key), 'v');
    const found = await collect(s.keys());
    const order = (a: Key, b: Key) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    assert.deepEqual(found.sort(order), [...invalid, ...texts].sort(order));
  });

  check('the option `keys` decides how they come back', async ({ s, attach }) => {
    await s.set('text', '1');
    await s.set(bytes(0xff), '2');
    const byOption = async (keys: 'bytes' | 'utf8') => collect(attach({ keys }).keys());
    const asBytes = (await byOption('bytes')).map((key) => {
      assert.ok(key instanceof Uint8Array);
      return Buffer.from(key).toString('hex');
    });
    assert.deepEqual(asBytes.sort(), ['74657874', 'ff']);
    assert.deepEqual((await byOption('utf8')).sort(), ['text', '\ufffd']);
  });

  check('a key that is refused, with its code', async ({ s }) => {
    await s.set('there', 'v');
    const long = 'x'.repeat(65_536);
    for (const key of [long, Buffer.from(long), '\ud800', 'a\udc00b', `${'x'.repeat(60)}\ud83d`]) {
      await rejectsCode('SW_INVALID_KEY', () => s.get(key));
      await rejectsCode('SW_INVALID_KEY', () => s.set(key, 'v'));
      await rejectsCode('SW_INVALID_KEY', () => s.delete(key));
      await rejectsCode('SW_INVALID_KEY', () => s.increment(key));
      await rejectsCode('SW_INVALID_KEY', () => s.getMany(['there', key]));
      await rejectsCode('SW_INVALID_KEY', () => s.setMany([[key, 'v']]));
      await rejectsCode('SW_INVALID_KEY', () => s.deleteMany([key]));
      await rejectsCode('SW_INVALID_KEY', () => s.read(key, () => 0));
    }
    for (const key of [undefined, null, 1, {}, ['a'], new ArrayBuffer(1), new Uint16Array(1)]) {
      await rejectsCode('SW_INVALID_KEY', () => s.get(key as Key), String(key));
      await rejectsCode('SW_INVALID_KEY', () => s.set(key as Key, 'v'), String(key));
    }
    assert.deepEqual(await collect(s.entries()), [['there', 'v']]);
  });

  check('a key is copied: changing the bytes afterwards changes nothing', async ({ s }) => {
    const key = bytes(1, 2, 3);
    const value = bytes(4, 5, 6);
    await s.set(key, value);
    key[0] = 9;
    value[0] = 9;
    assert.deepEqual(await s.get(bytes(1, 2, 3)), bytes(4, 5, 6));
    assert.equal(await s.get(key), undefined);
  });
}
