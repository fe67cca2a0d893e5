import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { codeOf } from '../../store/tests/support/codes.ts';
import { Scratch } from '../../verbs/index.ts';
import {
  type Bytes,
  bytesBound,
  CODEC_ASCII,
  CODEC_BYTES,
  CODEC_UTF8,
  checkKey,
  checkValue,
  decodedLength,
  decodeFrom,
  encodeInto,
} from '../codec.ts';

const AT = 24;

function roundTrip(data: Bytes): void {
  const scratch = new Scratch(AT + bytesBound(data) + 8);
  scratch.u8.fill(0xee);
  const encoded = encodeInto(data, scratch, AT, checkValue);
  const length = decodedLength(encoded);
  const expected = Buffer.from(data as string);
  assert.equal(length, expected.length);
  assert.ok(expected.equals(scratch.u8.subarray(AT, AT + length)));
  assert.ok(
    scratch.u8.subarray(0, AT).every((byte) => byte === 0xee),
    'nothing before',
  );
  if (typeof data !== 'string') {
    assert.deepEqual(decodeFrom(scratch, AT, length, CODEC_BYTES), new Uint8Array(data));
    return;
  }
  assert.equal(encoded >= 0, /^[\0-\x7f]*$/.test(data), 'negative tells of text beyond ASCII');
  assert.equal(decodeFrom(scratch, AT, length, CODEC_UTF8), data);
  if (encoded >= 0) assert.equal(decodeFrom(scratch, AT, length, CODEC_ASCII), data);
}

test('text and bytes come back as they were', () => {
  const texts = ['', 'a', 'x'.repeat(48), 'x'.repeat(49), 'x'.repeat(5000), '\0', '\x7f', '\x80'];
  texts.push('é', '鍵', '🗝️', `${'x'.repeat(47)}é`, `${'x'.repeat(48)}é`, 'é'.repeat(700), '\ufeff');
  for (const text of texts) roundTrip(text);
  for (const length of [0, 1, 127, 128, 129, 4000]) {
    roundTrip(Uint8Array.from({ length }, (_, i) => i * 7));
  }
});

test('random text and bytes come back as they were', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 80 }), roundTrip));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), roundTrip));
});

test('bytes of a view that begins in the middle of its buffer', () => {
  roundTrip(Uint8Array.from([9, 9, 1, 2, 3, 9]).subarray(2, 5));
  roundTrip(Buffer.from('pooled buffers share their memory'));
  roundTrip(new Uint8Array(new SharedArrayBuffer(16), 4, 8));
});

test('decoded bytes are a copy', () => {
  for (const length of [10, 1000]) {
    const scratch = new Scratch(length);
    const copy = decodeFrom(scratch, 0, length, CODEC_BYTES) as Uint8Array;
    scratch.u8.fill(1);
    assert.ok(copy.every((byte) => byte === 0));
  }
});

test('what is wrong is refused before it is encoded', () => {
  const scratch = new Scratch(1024);
  for (const wrong of ['\ud800', `${'x'.repeat(60)}\udc00`, 5, undefined, [1]] as Bytes[]) {
    assert.equal(
      codeOf(() => encodeInto(wrong, scratch, 0, checkKey)),
      'SW_INVALID_KEY',
    );
    assert.equal(
      codeOf(() => encodeInto(wrong, scratch, 0, checkValue)),
      'SW_INVALID_VALUE',
    );
  }
});

test('keys and values that are accepted and refused', () => {
  for (const key of ['', 'x'.repeat(65_535), '鍵'.repeat(21_845), new Uint8Array(65_535)]) {
    assert.equal(
      codeOf(() => checkKey(key)),
      'returned undefined',
    );
  }
  for (const key of ['x'.repeat(65_536), '鍵'.repeat(21_846), new Uint8Array(65_536), '\udc00']) {
    assert.equal(
      codeOf(() => checkKey(key)),
      'SW_INVALID_KEY',
    );
  }
  for (const value of ['', 'x', 'é', new Uint8Array(0), Buffer.from('x')]) {
    assert.equal(
      codeOf(() => checkValue(value)),
      'returned undefined',
    );
  }
  for (const wrong of [undefined, null, 0, 1n, true, {}, [], () => 0, new Float64Array(1)]) {
    assert.equal(
      codeOf(() => checkKey(wrong)),
      'SW_INVALID_KEY',
    );
    assert.equal(
      codeOf(() => checkValue(wrong)),
      'SW_INVALID_VALUE',
    );
  }
  assert.equal(
    codeOf(() => checkValue('\ud800\ud800')),
    'SW_INVALID_VALUE',
  );
});
