import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../../random/prng.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND } from '../../../../records/layout.ts';
import { type Operation, Scratch } from '../../../../verbs/index.ts';
import {
  entryHigh,
  entryLow,
  isTombstone,
  recordOf,
  TOMBSTONE,
  tagOf,
  tombstoneHigh,
  withoutSign,
} from '../../segments/entry.ts';
import { marksAlone } from '../../segments/main-segment.ts';
import { type MergePlan, MergePlanner } from '../merge-plan.ts';
import { RecordKeys } from '../record-keys.ts';

const RECORD_BYTES = 1024;
/** Short keys, as long as what is read at first, and longer. */
const KEY_BYTES = [1, 16, 239, 240, 241, 700];

/** Records in an array, and the READs of an operation done on it. */
class Records {
  readonly #memory = new Scratch(RECORD_BYTES * 600);
  #count = 0;
  reads = 0;

  /** A record of a key, of which the last byte is its number. */
  add(key: number): number {
    const at = RECORD_BYTES * ++this.#count;
    const bytes = key === 0 ? 0 : KEY_BYTES[key % KEY_BYTES.length];
    this.#memory.i32[(at + KEY_BYTES_AND_KIND) >> 2] = bytes;
    if (bytes > 0) this.#memory.u8[at + HEADER_BYTES + bytes - 1] = key;
    return at;
  }

  run<T>(operation: Operation<T>): T {
    for (;;) {
      const step = operation.next();
      if (step.done) return step.value;
      const { length, address, bytes, scratch, offset } = step.value;
      this.reads += length;
      for (let row = 0; row < length; row++) {
        const from = this.#memory.u8.subarray(address[row], address[row] + bytes[row]);
        scratch[row].u8.set(from, offset[row]);
      }
    }
  }
}

interface Written {
  key: number;
  low: number;
  high: number;
}

/** Few, so that most keys share them with others of the same length. */
function tagOfKey(key: number): number {
  return (key % 4) * 0x3333;
}

function entryOf(records: Records, key: number, sign: number): Written {
  const record = records.add(key);
  const fields = { tag: tagOfKey(key), depthBits: key % 2, sign };
  return { key, low: entryLow(record), high: entryHigh(record, 16, fields) };
}

function packed(entries: readonly Written[]): Int32Array {
  return Int32Array.from(entries.flatMap(({ low, high }) => [low, high]));
}

/** What a plan must say, by looking at keys alone. */
function wanted(main: Written[], current: Written[]) {
  const newest = new Map<number, Written>();
  for (const entry of [...main, ...current]) newest.set(entry.key, entry);
  const stays = [...newest.values()].filter(({ high }) => !isTombstone(high));
  const kept = new Set(stays.map(({ low, high }) => recordOf(low, high)));
  const dropped = new Set<number>();
  for (const { low, high } of [...main, ...current]) {
    const record = recordOf(low, high);
    if (!kept.has(record)) dropped.add(record);
  }
  return { kept, dropped };
}

function recordsIn(entries: Int32Array): number[] {
  return Array.from({ length: entries.length / 2 }, (_, i) =>
    recordOf(entries[2 * i], entries[2 * i + 1]),
  );
}

function assertPlan({ kept, dropped }: MergePlan, main: Written[], current: Written[]): void {
  const expected = wanted(main, current);
  assert.deepEqual(recordsIn(kept).toSorted(), [...expected.kept].toSorted());
  assert.deepEqual(recordsIn(dropped).toSorted(), [...expected.dropped].toSorted());
  for (let at = 1; at < kept.length; at += 2) {
    assert.equal(withoutSign(kept[at]), kept[at]);
    assert.ok(at === 1 || tagOf(kept[at - 2]) <= tagOf(kept[at]), 'sorted by fingerprints');
  }
}

test('a plan keeps the newest entry of every key, and drops each other record once', () => {
  const prng = Prng.fromSeed(4);
  const planner = new MergePlanner(new RecordKeys(7));
  for (let round = 0; round < 400; round++) {
    const records = new Records();
    const keys = 1 + prng.below(90);
    const main = Array.from({ length: keys }, (_, key) => key)
      .filter(() => prng.below(3) > 0)
      .map((key) => entryOf(records, key, 0))
      .sort((a, b) => tagOf(a.high) - tagOf(b.high));
    const present = new Map(main.map((entry) => [entry.key, entry]));
    const current: Written[] = [];
    for (let i = prng.below(129); i > 0; i--) {
      const key = prng.below(keys);
      const old = present.get(key);
      let entry = entryOf(records, key, 1);
      if (old !== undefined && prng.below(3) === 0) {
        // Deleted by a tombstone that names the record, and not there any more.
        entry = { key, low: old.low, high: tombstoneHigh(old.high, 1) };
        present.delete(key);
      } else if (prng.below(8) === 0) {
        entry.high |= TOMBSTONE;
        present.delete(key);
      } else {
        present.set(key, entry);
      }
      current.push(entry);
    }
    const plan = records.run(planner.plan(packed(main), packed(current)));
    assertPlan(plan, main, current);
  }
});

test('a plan keeps the marks in front of the entries of their fingerprints', () => {
  const records = new Records();
  const planner = new MergePlanner(new RecordKeys(7));
  const marks = [...marksAlone(256)];
  // Fingerprints that sort like the mark of theirs: nothing may take that for an entry.
  const fresh = [0, 5, 255].map((fingerprint) => {
    const fields = { tag: fingerprint << 8, depthBits: 0, sign: 1 };
    const record = records.add(fingerprint);
    return { low: entryLow(record), high: entryHigh(record, 16, fields) };
  });
  const current = Int32Array.from(fresh.flatMap(({ low, high }) => [low, high]));
  const { kept, dropped } = records.run(planner.plan(Int32Array.from(marks), current));
  const expected = marks.slice();
  for (const { low, high } of fresh.toReversed()) {
    expected.splice(2 * (high >>> 24) + 2, 0, low, withoutSign(high));
  }
  assert.deepEqual([...kept], expected);
  assert.equal(dropped.length, 0);
  assert.equal(records.reads, 0);
});

test('a plan reads no record to know that a tombstone deletes the record that it names', () => {
  const records = new Records();
  const planner = new MergePlanner(new RecordKeys(7));
  // No two keys share both fingerprints and depth bits.
  const keys = [0, 1, 2, 3];
  const main = keys
    .map((key) => entryOf(records, key, 0))
    .sort((a, b) => tagOf(a.high) - tagOf(b.high));
  const deleted = main
    .slice(0, 3)
    .map(({ key, low, high }) => ({ key, low, high: tombstoneHigh(high, 1) }));
  assertPlan(records.run(planner.plan(packed(main), packed(deleted))), main, deleted);
  assert.equal(records.reads, 0);
  // Another record with the same fingerprints may have the same key or not: both are read.
  const replaced = [entryOf(records, 3, 1)];
  assertPlan(records.run(planner.plan(packed(main), packed(replaced))), main, replaced);
  assert.ok(records.reads >= 2);
});
