import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Borders, EVERYTHING, KeyScale, SCALE_WORDS } from '../key-scale.ts';
import { compareWhole } from '../keys.ts';
import { HINT_MAX } from '../slot.ts';

const text = fc
  .string({ minLength: 0, maxLength: 9, unit: fc.constantFrom(...'0159:Zafg~ü') })
  .map((each) => new Uint8Array(Buffer.from(each)));
const key = fc.oneof(fc.uint8Array({ maxLength: 9 }), text);

test('a hint never orders two keys of a leaf otherwise than they are', () => {
  const shared = fc.uint8Array({ maxLength: 4 });
  const keys = fc.array(key, { minLength: 2, maxLength: 30 });
  fc.assert(
    fc.property(shared, keys, fc.boolean(), fc.boolean(), (before, tails, first, last) => {
      const all = tails.map((tail) => Uint8Array.of(...before, ...tail)).sort(compareWhole);
      const borders: Borders = {
        lower: first ? EVERYTHING.lower : all[0],
        upper: last ? undefined : all[all.length - 1],
      };
      const scale = new KeyScale().set(borders);
      const hints = all.map((each) => scale.hintOf(each, 0, each.length));
      // The upper border itself does not lie between the borders.
      const between = last ? hints : hints.slice(0, -1);
      assert.deepEqual(
        between,
        between.toSorted((a, b) => a - b),
      );
      for (const hint of between) assert.ok(hint >= 0 && hint <= HINT_MAX);
    }),
    { numRuns: 2000 },
  );
});

/** How many of 1000 keys, evenly between two borders, have the most common hint. */
function worst(lower: string, upper: string, keys: readonly string[]): number {
  const bytes = (each: string) => new Uint8Array(Buffer.from(each, 'latin1'));
  const scale = new KeyScale().set({ lower: bytes(lower), upper: bytes(upper) });
  const counts = new Map<number, number>();
  for (const each of keys) {
    const hint = scale.hintOf(bytes(each), 0, each.length);
    counts.set(hint, (counts.get(hint) ?? 0) + 1);
  }
  return Math.max(...counts.values()) / keys.length;
}

function within(share: number, most: number): void {
  assert.ok(share < most, `${share} of the keys have the same hint`);
}

test('hints tell keys of the usual forms apart', () => {
  const decimal = Array.from({ length: 1000 }, (_, i) => `user:${95_500 + i}`);
  const hexadecimal = Array.from({ length: 1000 }, (_, i) => `9e${(0x3f800 + i).toString(16)}77`);
  const words = Array.from({ length: 1000 }, (_, i) => `k${(50_000 + 40 * i).toString(36)}`);
  const binary = Array.from({ length: 1000 }, (_, i) =>
    String.fromCharCode(0, ...Uint8Array.of((0x7fe00 + i) >> 16, (0x7fe00 + i) >> 8, i), 1),
  );
  within(worst('user:955', 'user:965', decimal), 0.05);
  within(worst('9e3f8', '9e3fbe877', hexadecimal), 0.05);
  within(worst('k12k', 'k1xg', words), 0.3);
  within(worst('\x00\x07\xfe', '\x00\x08\x01\xe8', binary), 0.08);
});

test('a scale that was put away is the same when it is recalled', () => {
  const words = new Int32Array(2 * SCALE_WORDS);
  assert.equal(new KeyScale().recall(words, SCALE_WORDS), false);
  const long = fc.integer({ min: 0, max: 60_000 }).map((length) => new Uint8Array(length).fill(97));
  const before = fc.oneof(fc.uint8Array({ maxLength: 4 }), long);
  fc.assert(
    fc.property(before, key, fc.option(key), fc.array(key), (begin, one, other, tails) => {
      const whole = (tail: Uint8Array) => Uint8Array.of(...begin, ...tail);
      const [lower, upper] = [one, other].map((each) => each && whole(each));
      const made = new KeyScale().set({ lower: lower ?? begin, upper: upper ?? undefined });
      made.keep(words, SCALE_WORDS);
      const recalled = new KeyScale();
      assert.equal(recalled.recall(words, SCALE_WORDS), true);
      assert.equal(recalled.shared, made.shared);
      for (const each of tails.map(whole)) {
        assert.equal(recalled.hintOf(each, 0, each.length), made.hintOf(each, 0, each.length));
      }
    }),
    { numRuns: 500 },
  );
});
