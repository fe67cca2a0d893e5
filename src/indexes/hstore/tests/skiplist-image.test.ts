import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Scratch } from '../../../verbs/index.ts';
import type { Folded } from '../protocol/log.ts';
import { type PaddedKey, paddedBytes } from '../protocol/record-heads.ts';
import { sortByKey } from '../skiplist-server/skiplist.ts';
import { SkiplistImage } from '../skiplist-server/skiplist-image.ts';
import { SlotMap } from '../skiplist-server/slot-map.ts';

function* atOnce() {}

function finish<T>(operation: Generator<unknown, T>): T {
  let step = operation.next();
  while (!step.done) step = operation.next();
  return step.value;
}

/** A key as it is read: not at the start of its memory. */
function padded(key: string): PaddedKey {
  const words = new Scratch(16 + paddedBytes(key.length));
  words.u8.set(Buffer.from(key, 'latin1'), 16);
  return { u8: words.u8, i32: words.i32, at: 16, bytes: key.length };
}

/** Many keys are beginnings of others, have them in common, or differ in zeros at the end alone. */
const KEY = fc.oneof(
  fc.stringMatching(/^[\0ab]{0,7}$/),
  fc.stringMatching(/^[\0a]{0,2}$/).map((end) => `${'p'.repeat(40)}${end}`),
  fc.stringMatching(/^[ -\u00ff]{0,20}$/),
);

interface Entry {
  key: string;
  low: number;
  high: number;
}

/** What the image is to hold: entries by their slots. */
type Model = Map<number, Entry>;

const highOf = (n: number) => (1 << 16) | n;

function checkAgainst(image: SkiplistImage, model: Model): void {
  assert.equal(image.bySlot.size, model.size);
  const entries = [...model.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  const all = { from: undefined, count: Number.POSITIVE_INFINITY };
  const found = (reverse: boolean) => {
    return image.collect({ ...all, reverse }).map((node) => image.orderedSlot(node));
  };
  assert.deepEqual(found(false), entries);
  assert.deepEqual(found(true), entries.toReversed());
  for (const { key } of entries) checkBounds(image, entries, key);
  checkBounds(image, entries, 'a\0');
  for (const slot of model.keys()) {
    assert.ok(!image.wantsKeyOf({ slot, low: 0, high: highOf(1), rekeyed: false }));
  }
}

function checkBounds(image: SkiplistImage, entries: readonly Entry[], key: string): void {
  for (const reverse of [false, true]) {
    for (const bound of [key, `${key}\0`]) {
      const from = Buffer.from(bound, 'latin1');
      const [node] = image.collect({ from, reverse, count: 1 });
      const isWithin = (other: string) => (reverse ? other < bound : other >= bound);
      const expected = (reverse ? entries.toReversed() : entries).find((e) => isWithin(e.key));
      assert.deepEqual(node === undefined ? undefined : image.orderedSlot(node), expected);
    }
  }
}

function built(keys: readonly string[], partitions: number): [SkiplistImage, Model] {
  const image = new SkiplistImage(partitions, 7);
  const model: Model = new Map();
  keys.forEach((key, i) => {
    const [slot, low, high] = [64 * (1 + i), ~i, highOf(i)];
    image.add({ slot, low, high }, padded(key));
    model.set(slot, { key, low, high });
  });
  finish(image.link(atOnce));
  return [image, model];
}

/** A change of a slot, as the log tells of it: `key` for another key, none for an update. */
interface Step {
  slot: number;
  key: string | undefined;
  isDelete: boolean;
}

const STEP: fc.Arbitrary<Step> = fc.record({
  slot: fc.integer({ min: 1, max: 40 }).map((n) => 64 * n),
  key: fc.option(KEY, { nil: undefined }),
  isDelete: fc.boolean(),
});

/** The step as far as a table could come to it: a key is in one slot, and an update needs a key. */
function foldedOf(step: Step, model: Model, n: number): Folded | undefined {
  const { slot, key, isDelete } = step;
  const before = model.get(slot);
  if (isDelete) return before && { slot, low: n, high: 0, rekeyed: true };
  if (key === undefined) return before && { slot, low: n, high: highOf(n), rekeyed: false };
  const isElsewhere = [...model].some(([at, entry]) => at !== slot && entry.key === key);
  return isElsewhere ? undefined : { slot, low: n, high: highOf(n), rekeyed: true };
}

function apply(step: Step, image: SkiplistImage, model: Model, n: number): void {
  const change = foldedOf(step, model, n);
  if (change === undefined) return;
  const { slot, low, high } = change;
  const key = step.key ?? model.get(slot)?.key ?? '';
  image.change([change], image.wantsKeyOf(change) ? [padded(key)] : []);
  if (step.isDelete) model.delete(slot);
  else model.set(slot, { key, low, high });
}

test('an image that was built at once and then changed has what a sorted map has', () => {
  const keys = fc.uniqueArray(KEY, { maxLength: 60 });
  const steps = fc.array(STEP, { maxLength: 60 });
  const property = fc.property(
    keys,
    steps,
    fc.integer({ min: 1, max: 3 }),
    (first, all, partitions) => {
      const [image, model] = built(first, partitions);
      checkAgainst(image, model);
      all.forEach((step, n) => {
        apply(step, image, model, n);
      });
      checkAgainst(image, model);
    },
  );
  fc.assert(property, { numRuns: 150 });
});

test('slots that are elsewhere are found there, with what is changed later', () => {
  const keys = Array.from({ length: 300 }, (_, i) => `key ${(i * 7919) % 1000}`);
  const [image, model] = built(keys, 2);
  const moved = (slot: number) => 2 ** 40 + 8 * slot;
  const bySlot = new SlotMap(image.nodes, image.bySlot.size);
  image.nodes.slot.forEach((slot, node) => {
    if (slot === 0) return;
    image.nodes.slot[node] = moved(slot);
    bySlot.add(node);
  });
  image.bySlot = bySlot;
  const after: Model = new Map([...model].map(([slot, entry]) => [moved(slot), entry]));
  checkAgainst(image, after);
  const [slot] = after.keys();
  apply({ slot, key: undefined, isDelete: true }, image, after, 1);
  checkAgainst(image, after);
});

test('a node that was given back is taken again for a key of as many units', () => {
  const [image, model] = built(['a', 'b'], 1);
  const { end } = image.nodes;
  for (let n = 0; n < 100; n++) {
    apply({ slot: 64, key: undefined, isDelete: true }, image, model, n);
    const key = 'c'.repeat(1 + 40 * (n % 2));
    apply({ slot: 64, key, isDelete: false }, image, model, n);
  }
  checkAgainst(image, model);
  assert.equal(image.nodes.end, end + 1);
});

test('nodes are sorted by their keys', () => {
  const property = fc.property(fc.array(KEY, { maxLength: 100 }), (keys) => {
    const { nodes } = new SkiplistImage(1, 1);
    const order = Uint32Array.from(keys, (key, i) =>
      nodes.take({ slot: 8 + 8 * i, low: 0, high: 0 }, padded(key)),
    );
    finish(sortByKey(nodes, order, atOnce));
    assert.deepEqual(
      [...order].map((node) => nodes.text(node)),
      keys.toSorted(),
    );
    assert.equal(new Set(order).size, keys.length);
  });
  fc.assert(property, { numRuns: 200 });
});
