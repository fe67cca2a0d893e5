import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import { CONTINUATION_UNITS } from '../../../records/layout.ts';
import { Scratch } from '../../../verbs/index.ts';
import { SepHashGeometry, sepHashShape } from '../geometry.ts';
import {
  depthBitsFor,
  depthBitsOf,
  entryHigh,
  entryLow,
  fingerprintOf,
  isTombstone,
  recordOf,
  signOf,
  tagOf,
  tombstoneHigh,
  unitsOfEntry,
  withDepthBits,
  withoutSign,
} from '../segments/entry.ts';
import { FpTable, RecordPoints, WholeMain } from '../segments/fp-cache.ts';
import {
  depthOf,
  EPOCH_VALUES,
  epochOf,
  isClosed,
  mainOf,
  metaHigh,
  metaLow,
  nextEpoch,
  nextOddEpoch,
  signOfEpoch,
  versionAt,
} from '../segments/header.ts';
import {
  FINGERPRINTS,
  fpTableIn,
  MAIN_HEADER_BYTES,
  mainBytes,
  marksAlone,
  parseFpTable,
  parseMainHeader,
  setMarks,
  withoutMarks,
  writeMain,
} from '../segments/main-segment.ts';

const NO_TAG = { tag: 0, depthBits: 0, sign: 0 };
const ADDRESSES = [64, 2 ** 31 - 64, 2 ** 32, 1023 * 2 ** 31 + 640, 2 ** 42 - 64];
/** A pool has at most 2^35 units. */
const MAINS = ADDRESSES.map((address) => Math.min(address, 2 ** 41 - 64));

test('an entry keeps all its fields', () => {
  for (const record of ADDRESSES) {
    for (const tag of [0, 1, 0x1234, 0xffff]) {
      for (const [units, depthBits, sign] of [
        [0, 0, 0],
        [62, 15, 1],
        [63, 9, 0],
      ]) {
        const low = entryLow(record);
        const high = entryHigh(record, units, { tag, depthBits, sign });
        assert.equal(recordOf(low, high), record);
        assert.equal(tagOf(high), tag);
        assert.equal(fingerprintOf(high), tag >>> 8);
        assert.equal(unitsOfEntry(high), units);
        assert.equal(depthBitsOf(high), depthBits);
        assert.equal(signOf(high), sign);
        assert.equal(isTombstone(high), false);
        const tombstone = tombstoneHigh(high, 1 - sign);
        assert.ok(isTombstone(tombstone) && signOf(tombstone) === 1 - sign);
        assert.equal(recordOf(low, tombstone), record);
        assert.equal(tagOf(tombstone), tag);
        assert.equal(depthBitsOf(withDepthBits(high, 6)), 6);
        assert.equal(signOf(withoutSign(high)), 0);
      }
    }
  }
  assert.equal(unitsOfEntry(entryHigh(64, 255, { tag: 0, depthBits: 0, sign: 0 })), 63);
});

test('depth bits are the four of the round', () => {
  const hash = 0b1010_0110_1100_0011_0101;
  const rounds = [0b0101, 0b0011, 0b1100, 0b0110, 0b1010];
  for (let depth = 0; depth < 20; depth++) {
    assert.equal(depthBitsFor(hash, depth), rounds[Math.floor(depth / 4)]);
  }
  assert.equal(depthBitsFor(-1, 23), 15);
});

test('metadata keep pointer, depth, epoch and whether it is closed, and the epoch wraps around', () => {
  for (const main of MAINS) {
    for (const depth of [0, 7, 24]) {
      for (const epoch of [0, 1, 2 ** 22, EPOCH_VALUES - 1]) {
        const low = metaLow(main);
        for (const closed of [false, true]) {
          const high = metaHigh(main, depth, epoch, closed);
          assert.deepEqual([mainOf(low, high), depthOf(high), epochOf(high)], [main, depth, epoch]);
          assert.equal(isClosed(high), closed);
        }
        assert.notEqual(signOfEpoch(nextEpoch(epoch)), signOfEpoch(epoch));
        assert.equal(signOfEpoch(nextOddEpoch(epoch)), 1);
        assert.notEqual(nextOddEpoch(epoch), epoch);
      }
    }
  }
  assert.ok(versionAt(EPOCH_VALUES - 1, 255) < 2 ** 31);
});

/** Entries sorted by fingerprint, from a distribution of fingerprints. */
function sortedEntries(count: number, fingerprint: (prng: Prng) => number): Int32Array {
  const prng = Prng.fromSeed(count + 1);
  const tags = Array.from({ length: count }, () => (fingerprint(prng) << 8) | prng.below(256));
  tags.sort((a, b) => a - b);
  return Int32Array.from(tags.flatMap((tag, i) => [i, tag << 16]));
}

const DISTRIBUTIONS = {
  uniform: (prng: Prng) => prng.below(256),
  skewed: (prng: Prng) => prng.below(1 + prng.below(256)),
  'of one fingerprint': () => 200,
  'of the last': () => 255,
  'of the first': () => 0,
};

for (const [name, fingerprint] of Object.entries(DISTRIBUTIONS)) {
  test(`every cache finds all entries of a fingerprint: ${name}`, () => {
    for (const count of [0, 1, 7, 300, 8192, 16_640]) {
      const entries = sortedEntries(count, fingerprint);
      const image = new Scratch(64);
      const fields = { suffix: 5, depth: 3, slots: 64 * 77, sibling: 2 ** 40, units: 33, home: 0 };
      const bytes = writeMain(image, fields, entries, new Int32Array(4), 0);
      assert.equal(bytes, mainBytes(count + 2));
      assert.deepEqual(parseMainHeader(image, 0), { ...fields, count, dropped: 2 });
      const ends = parseFpTable(image, 0);
      const caches = [new WholeMain(count), new FpTable(ends), new RecordPoints(ends)];
      for (let fp = 0; fp < FINGERPRINTS; fp++) {
        const first = entries.findIndex((high, i) => i % 2 === 1 && high >>> 24 === fp);
        if (first < 0) continue;
        const start = (first - 1) / 2;
        for (const cache of caches) {
          assert.ok(cache.start(fp) <= start && cache.end(fp) >= ends[fp], `${fp} of ${count}`);
          assert.ok(cache.start(fp) >= 0 && cache.end(fp) <= count);
        }
        assert.deepEqual([caches[1].start(fp), caches[1].end(fp)], [start, ends[fp]]);
      }
      assert.deepEqual(
        [...image.i32.subarray(MAIN_HEADER_BYTES >> 2).subarray(0, 2 * count)],
        [...entries],
      );
    }
  });
}

test('a MainSegment has its marks in front of the entries of their fingerprints', () => {
  const image = new Scratch(64);
  const fields = { suffix: 0, depth: 0, slots: 64, sibling: 0, units: 33, home: 0 };
  for (const marks of [4, 64, 256]) {
    // Entries of one unit; the first fingerprints of some marks have none.
    const entries = sortedEntries(300, DISTRIBUTIONS.skewed);
    for (let at = 1; at < entries.length; at += 2) entries[at] |= entryHigh(0, 1, NO_TAG);
    const set = marksAlone(marks).map((word, i) => (i % 2 === 0 ? 1 : word));
    const words = [...pairs(set), ...pairs(entries)].sort(([, a], [, b]) => (a >>> 0) - (b >>> 0));
    const nothing = new Int32Array(0);
    const bytes = writeMain(image, fields, Int32Array.from(words.flat()), nothing, marks);
    assert.equal(bytes, mainBytes(300 + marks));
    assert.equal(parseMainHeader(image, 0).count, 300);
    const ends = fpTableIn(image, 0);
    for (const value of [0, 1]) {
      if (value === 1) setMarks(image, marks, 1);
      for (let mark = 0; mark < marks; mark++) {
        const fingerprint = (256 / marks) * mark;
        const at = MAIN_HEADER_BYTES + 8 * (fingerprint === 0 ? 0 : ends[fingerprint - 1]);
        assert.deepEqual(
          [image.i32[at >> 2], image.i32[(at >> 2) + 1]],
          [value, fingerprint << 24],
        );
      }
    }
    const all = image.i32.subarray(MAIN_HEADER_BYTES >> 2, bytes >> 2);
    assert.deepEqual([...withoutMarks(all)], [...entries]);
  }
});

function pairs(words: Int32Array): [number, number][] {
  return Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i], words[2 * i + 1]]);
}

test('marks are as many as fingerprints, or fewer in small segments', () => {
  const marksOf = (segmentBytes: number, ratio: number) =>
    new SepHashGeometry(sepHashShape({ segmentBytes, ratio }, 2 ** 24, 1)).marks;
  for (const [segmentBytes, ratio, marks] of [
    [2048, 1, 256],
    [1024, 64, 256],
    [512, 64, 256],
    [512, 63, 128],
    [128, 64, 64],
    [128, 16, 16],
    [128, 8, 16],
    [16, 1, 2],
  ]) {
    assert.equal(marksOf(segmentBytes, ratio), marks, `${segmentBytes} B, ratio ${ratio}`);
  }
});

test('record points take a fraction of the table when fingerprints are spread evenly', () => {
  const image = new Scratch(64);
  const entries = sortedEntries(8192, DISTRIBUTIONS.uniform);
  writeMain(
    image,
    { suffix: 0, depth: 0, slots: 64, sibling: 0, units: 33, home: 0 },
    entries,
    new Int32Array(0),
    0,
  );
  const ends = parseFpTable(image, 0);
  const points = new RecordPoints(ends);
  assert.ok(points.points <= 32, `${points.points} points`);
  assert.ok(points.bytes < new FpTable(ends).bytes / 3);
  let read = 0;
  for (let fp = 0; fp < FINGERPRINTS; fp++) read += points.end(fp) - points.start(fp);
  assert.ok(read < 2.2 * 8192, 'an average and half of one before and behind');
});

test('table blocks have sizes that records do not have, and fit what they hold', () => {
  for (const segmentBytes of [128, 256, 512, 1024, 2048]) {
    for (const ratio of [8, 16, 32, 64]) {
      const geometry = new SepHashGeometry(sepHashShape({ segmentBytes, ratio }, 2 ** 30, 1));
      assert.ok(geometry.slotsUnits * 64 >= segmentBytes);
      for (const units of geometry.tableUnits) {
        assert.ok(units > 8 && units % 2 === 1 && units !== CONTINUATION_UNITS);
      }
      const most = geometry.mainLimit + 3 * geometry.slots;
      for (let entries = 0; entries <= most; entries++) {
        const kept = Math.max(0, entries - geometry.slots);
        const units = geometry.mainUnits(kept, entries - kept);
        assert.ok(mainBytes(entries + geometry.marks) <= 64 * units);
        assert.ok(geometry.tableUnits.includes(units));
      }
      assert.ok(geometry.mainSizes.unitsFor(most) <= 4095);
      const marks = Array.from({ length: 256 }, (_, fingerprint) => geometry.hasMark(fingerprint));
      assert.equal(marks.filter((has) => has).length, geometry.marks);
    }
  }
});
