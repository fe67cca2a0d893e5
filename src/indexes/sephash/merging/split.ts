import { invariant } from '../../../errors.ts';
import {
  type Address,
  type Batch,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import {
  depthBitsFor,
  depthBitsOf,
  isPad,
  SPLITS_PER_ROUND,
  withDepthBits,
} from '../segments/entry.ts';
import { HEADER_BYTES, HEADER_UNITS, metaHigh, metaLow, nextOddEpoch } from '../segments/header.ts';
import { allocateMain } from '../segments/main-blocks.ts';
import { type MainHeader, withoutMarks, writeMain } from '../segments/main-segment.ts';
import type { SepHashTable } from '../table.ts';
import type { RecordKeys } from './record-keys.ts';

/** One of the two segments that a split makes. */
class Half {
  entries: Int32Array = new Int32Array(0);
  main: Address = 0;
  units = 0;
  slots: Address = 0;
  readonly image = new Scratch(4096);
}

/**
 * The two halves of a segment that is being split. Both get new CurSegments: the old one's words
 * would still name records that the other half may retire. The half whose next suffix bit is 0
 * keeps the segment's header. The sibling gets a header of its own. The first half's MainSegment
 * names that header until the directory does, so that no client depends on the splitter.
 */
export class Halves {
  readonly #table: SepHashTable;
  readonly #keys: RecordKeys;
  readonly low = new Half();
  readonly high = new Half();
  /** Address of the sibling's header. */
  sibling: Address = 0;
  readonly header = new Scratch(HEADER_BYTES);
  readonly zeros: Scratch;
  /** How many marks a MainSegment has. */
  readonly marks: number;

  constructor(table: SepHashTable, keys: RecordKeys) {
    this.#table = table;
    this.#keys = keys;
    this.marks = table.geometry.marks;
    this.zeros = new Scratch(table.geometry.slotsBytes);
  }

  /**
   * Divides entries by the bit of the hash that they carry for this split. After the last bit of a
   * round all records are read for the next four (section 4.2.2). Each half gets all marks.
   */
  *divide(entries: Int32Array, depth: number): Operation<void> {
    const { depthBits } = this.#table.techniques;
    const refills = (depth + 1) % SPLITS_PER_ROUND === 0;
    const readsAll = refills || !depthBits;
    const hashes = readsAll ? yield* this.#keys.hashes(withoutMarks(entries.slice())) : undefined;
    const parts: [Int32Array, Int32Array] = [
      new Int32Array(entries.length),
      new Int32Array(entries.length),
    ];
    const ends: [number, number] = [0, 0];
    let met = 0;
    for (let at = 0; at < entries.length; at += 2) {
      let high = entries[at + 1];
      if (isPad(high)) {
        for (const side of [0, 1] as const) parts[side][ends[side] + 1] = high;
        ends[0] += 2;
        ends[1] += 2;
        continue;
      }
      const hash = hashes?.[met++];
      const bit =
        hash === undefined
          ? (depthBitsOf(high) >>> (depth % SPLITS_PER_ROUND)) & 1
          : (hash >>> depth) & 1;
      if (hash !== undefined) high = withDepthBits(high, depthBitsFor(hash, depth + 1));
      const side = bit as 0 | 1;
      parts[side][ends[side]++] = entries[at];
      parts[side][ends[side]++] = high;
    }
    this.low.entries = parts[0].subarray(0, ends[0]);
    this.high.entries = parts[1].subarray(0, ends[1]);
  }

  *allocate(forDeletion: boolean): Operation<void> {
    const { allocator, catalog, geometry } = this.#table;
    try {
      for (const half of [this.low, this.high]) {
        const counts = { kept: half.entries.length / 2 - geometry.marks, dropped: 0 };
        const block = yield* allocateMain(this.#table, counts, forDeletion);
        half.main = block.address;
        half.units = block.units;
        half.slots = yield* allocator.allocate(catalog, geometry.slotsUnits);
      }
      this.sibling = yield* allocator.allocate(catalog, HEADER_UNITS);
    } catch (error) {
      this.giveBack();
      throw error;
    }
  }

  /**
   * Returns the blocks, which no client has seen, after another client's split or without memory.
   */
  giveBack(): void {
    const { allocator, catalog, geometry } = this.#table;
    const give = (address: Address, units: number) => {
      if (address !== 0) allocator.sizeClass(catalog, units).cache.push(address);
    };
    for (const half of [this.low, this.high]) {
      give(half.main, half.units);
      give(half.slots, geometry.slotsUnits);
    }
    give(this.sibling, HEADER_UNITS);
    this.forget();
  }

  /** The blocks belong to the index, or are given back. */
  forget(): void {
    for (const half of [this.low, this.high]) {
      half.main = 0;
      half.slots = 0;
    }
    this.sibling = 0;
  }
}

/** Adds the WRITEs of both halves; returns the metadata that publishes them. */
export function postHalves(
  halves: Halves,
  batch: Batch,
  { suffix, depth }: MainHeader,
  epoch: number,
): { low: number; high: number } {
  const { low, high, header, zeros, sibling, marks } = halves;
  const next = nextOddEpoch(epoch);
  // The old CurSegment's words would name records that both halves may retire.
  const areNew = low.slots > 0 && high.slots > 0 && low.slots !== high.slots && sibling > 0;
  invariant(areNew, 'the halves of a split share a CurSegment or lack one');
  const none = new Int32Array(0);
  for (const half of [high, low]) {
    const fields = {
      suffix: half === high ? suffix + 2 ** depth : suffix,
      depth: depth + 1,
      slots: half.slots,
      sibling: half === high ? 0 : sibling,
      units: half.units,
      home: 0,
    };
    const bytes = writeMain(half.image, fields, half.entries, none, marks);
    invariant(bytes <= UNIT_BYTES * half.units, 'a MainSegment is longer than its block');
    batch.write(half.main, bytes, half.image, 0).write(half.slots, zeros.u8.length, zeros, 0);
  }
  setWord(header, 0, metaLow(high.main), metaHigh(high.main, depth + 1, next));
  batch.write(sibling, HEADER_BYTES, header, 0);
  return { low: metaLow(low.main), high: metaHigh(low.main, depth + 1, next) };
}
