import assert from 'node:assert/strict';
import type { AsyncStore, Store, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { patternBytes } from '../../support/pools.ts';
import { collect, type Suite } from './suite.ts';

const MIB = 2 ** 20;
const KEY = 'sixteen byte key';

/** With a 16-byte key: the record limit is at 16,288, the first piece ends at 48,944. */
const LENGTHS = [
  0,
  1,
  7,
  8,
  9,
  31,
  32,
  33,
  47,
  48,
  49,
  127,
  128,
  129,
  1000,
  1024,
  16_271,
  16_272,
  16_273,
  16_280,
  16_287,
  16_288,
  16_289,
  16_296,
  17 * 1024,
  48_943,
  48_944,
  48_945,
  81_616,
  100 * 1024,
  MIB,
];

/** Not deepEqual: it takes seconds for megabytes. */
function assertBytes(actual: Value | undefined, expected: Uint8Array): void {
  assert.ok(actual instanceof Uint8Array, typeof actual);
  assert.equal(actual.length, expected.length);
  assert.ok(Buffer.from(actual.buffer, actual.byteOffset, actual.length).equals(expected));
}

async function roundTrip(s: AsyncStore<Value>, length: number): Promise<void> {
  const value = patternBytes(length, length + 1);
  await s.set(KEY, value);
  assertBytes(await s.get(KEY), value);
  assertBytes((await s.getEntry(KEY))?.value, value);
  assertBytes((await s.getMany([KEY]))[0], value);
  assertBytes(await s.read(KEY, (bytes) => bytes.slice()), value);
  for await (const [key, walked] of s.entries()) {
    assert.equal(key, KEY);
    assertBytes(walked, value);
  }
}

export function valueCases({ check, checkSync, largeValues }: Suite): void {
  check('values of every length, also over one another', async ({ s }) => {
    for (const length of LENGTHS) await roundTrip(s, length);
    for (const length of LENGTHS.toReversed()) await roundTrip(s, length);
    assert.equal(await s.size(), 1);
    assertBytes(await s.take(KEY), patternBytes(0));
  });

  check('short over long and back, and everything is gone after delete', async ({ s }) => {
    for (let round = 0; round < 20; round++) {
      const length = round % 2 === 0 ? 20_000 + 7000 * round : round;
      await s.set(KEY, patternBytes(length, round));
      await s.set('other', `round ${round}`);
      assertBytes(await s.get(KEY), patternBytes(length, round));
    }
    assert.equal(await s.get('other'), 'round 19');
    assert.equal(await s.delete(KEY), true);
    assert.equal(await s.get(KEY), undefined);
    assert.equal(await s.size(), 1);
  });

  check('chained values under keys of every length', async ({ s }) => {
    for (const keyBytes of [0, 16, 16_000, 16_288, 16_305, 30_000, 65_535]) {
      for (const length of [0, 1, 40, 400, 50_000]) {
        const key = patternBytes(keyBytes, 3);
        const value = patternBytes(length, keyBytes + 1);
        await s.set(key, value);
        assertBytes(await s.get(key), value);
        assertBytes((await s.write(key, 'next', { previous: true })).previous, value);
        assert.equal(await s.take(key), 'next');
      }
    }
  });

  check('words that are NaNs to a double keep their bits', async ({ s }) => {
    for (const highest of [0x7f, 0xff]) {
      for (const length of [8, 16, 64, 200, 1000]) {
        const value = new Uint8Array(length).fill(0xff);
        for (let at = 7; at < length; at += 8) value[at] = highest;
        const key = value.slice(0, 24);
        await s.set(key, value);
        assertBytes(await s.get(key), value);
        assertBytes((await s.getMany([key]))[0], value);
        assertBytes(await s.read(key, (bytes) => bytes.slice()), value);
        for await (const found of s.keys()) assertBytes(found, key);
        assert.equal(await s.delete(key), true);
      }
    }
  });

  check('text comes back as text, bytes as bytes', async ({ s }) => {
    const texts = ['', 'a', 'plain ASCII', 'x'.repeat(49), 'naïve', '鍵', '🗝️', '\ufeffbom', 'a\0b'];
    texts.push('é'.repeat(24), 'é'.repeat(600), 'x'.repeat(30_000), '鍵'.repeat(10_000));
    for (const text of texts) {
      await s.set('k', text);
      assert.equal(await s.get('k'), text);
      await s.set('k', Buffer.from(text));
      assertBytes(await s.get('k'), Buffer.from(text));
    }
  });

  check('the option `values` decides how they come back', async ({ s, attach }) => {
    await s.set('text', 'größe');
    await s.set('bytes', Buffer.from('größe'));
    await s.set('ascii', 'plain');
    await s.set('invalid', Uint8Array.of(0xff));
    const asText = attach({ values: 'utf8' });
    const asBytes = attach({ values: 'bytes' });
    for (const key of ['text', 'bytes']) {
      assert.equal(await asText.get(key), 'größe');
      assertBytes(await asBytes.get(key), Buffer.from('größe'));
    }
    assert.equal(await asText.get('ascii'), 'plain');
    assertBytes(await asBytes.get('ascii'), Buffer.from('plain'));
    assert.equal(await asText.get('invalid'), '\ufffd');
    assertBytes((await asBytes.getEntry('text'))?.value, Buffer.from('größe'));
    assert.deepEqual(await asText.getMany(['bytes', 'none']), ['größe', undefined]);
    const written = await asText.write('bytes', 'new', { previous: true });
    assert.deepEqual(written, { written: true, previous: 'größe' });
    for (const value of await collect(asBytes.values())) assert.ok(value instanceof Uint8Array);
    assert.equal(await asText.take('text'), 'größe');
  });

  check('a value that is refused, with its code, leaves the old one', async ({ s }) => {
    await s.set('k', 'old');
    const wrong = [
      undefined,
      null,
      5,
      {},
      [],
      new Uint16Array(2),
      new ArrayBuffer(2),
      Symbol.iterator,
    ];
    for (const value of [...wrong, '\ud800', `${'x'.repeat(60)}\udc00`]) {
      const refused = (action: () => Promise<unknown>) => rejectsCode('SW_INVALID_VALUE', action);
      await refused(() => s.set('k', value as Value));
      await refused(() => s.insert('new', value as Value));
      await refused(() => s.update('k', value as Value));
      await refused(() => s.write('k', value as Value, { previous: true }));
      await refused(() => s.compareAndSet('k', 1, value as Value));
      await refused(() => s.setMany([['new', value as Value]]));
    }
    assert.deepEqual(await collect(s.entries()), [['k', 'old']]);
  });

  if (!largeValues) return;

  const body = async (store: Store<Value>) => {
    const value = patternBytes(64 * MIB, 7);
    store.set(KEY, value);
    assertBytes(store.get(KEY), value);
    await rejectsCode('SW_INVALID_VALUE', async () => store.set(KEY, new Uint8Array(64 * MIB + 1)));
    await rejectsCode('SW_INVALID_VALUE', async () => store.set(KEY, 'é'.repeat(32 * MIB + 1)));
    assertBytes(store.get(KEY), value);
    store.set(KEY, 'short');
    assert.equal(store.get(KEY), 'short');
  };
  // Room for the value and for the one that replaces it.
  const options = { size: 256 * MIB };
  checkSync('a value of 64 MiB, and one byte more is refused', body, options);
}
