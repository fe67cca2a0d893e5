import { StepwellError } from '../../../src/errors.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import {
  emptySlot,
  isLive,
  isVacant,
  pointerOf,
  stampOf,
  withStamp,
} from '../../../src/indexes/race/slot.ts';
import { allocateSubtable, writeSubtable } from '../../../src/indexes/race/split.ts';
import type { RaceTable } from '../../../src/indexes/race/table.ts';
import { lengthOf } from '../../../src/indexes/substrates/claims/slot-format.ts';
import { control } from '../../../src/pool/control.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';

/** Words of a subtable's header that nothing else uses: it is being filled, or being split. */
export const FILLING = 16;
const SPLITTING = 24;
const BUCKETS_PER_COMBINED = 2;

export interface MoveTally {
  moved: number;
  left: number;
}

interface Mover {
  table: RaceTable;
  request: RaceRequest;
  child: Address;
  /** Local depth after the split. */
  depth: number;
  tally: MoveTally;
}

/** The published split under its lock, item by item; nobody else is kept from inserting. */
export function* publishedSplit(
  table: RaceTable,
  { subtable }: RaceRequest,
  tally: MoveTally,
): Operation<void> {
  if ((yield* control.load(subtable + FILLING)) !== 0n) return;
  if (!(yield* control.swap(subtable + SPLITTING, 0n, 1n))) return;
  try {
    yield* splitUnderLock(table, subtable, tally);
  } finally {
    yield* control.store(subtable + SPLITTING, 0n);
  }
}

function* splitUnderLock(table: RaceTable, subtable: Address, tally: MoveTally): Operation<void> {
  const { geometry, directory } = table;
  const header = yield* control.load(geometry.bucketAddress(subtable, 0));
  const suffix = Number(BigInt.asUintN(32, header));
  const depth = Number((header >> 32n) & 0xffn);
  if (depth >= directory.maxDepth) throw new StepwellError('SW_INDEX_FULL', 'maximum depth');
  yield* directory.deepen(depth);
  const child = yield* allocateSubtable(table.allocator, table.catalog, geometry);
  const identity = { parent: subtable, suffix: suffix + 2 ** depth, depth: depth + 1, ready: true };
  yield* writeSubtable(geometry, child, identity);
  yield* control.store(child + FILLING, 1n);
  yield* directory.link(suffix, depth, child);
  table.splits++;
  const mover = { table, request: table.newRequest(), child, depth: depth + 1, tally };
  for (let bucket = 0; bucket < geometry.buckets; bucket++) {
    yield* moveBucket(mover, geometry.bucketAddress(subtable, bucket), header);
  }
  yield* control.store(child + FILLING, 0n);
}

/** Header first, then the items, as printed. */
function* moveBucket(mover: Mover, bucket: Address, header: bigint): Operation<void> {
  const { bucketBytes } = mover.table.geometry;
  yield* control.swap(bucket, header, header + (1n << 32n));
  for (let slot = bucket + 8; slot < bucket + bucketBytes; slot += 8) {
    while (!(yield* moveSlot(mover, slot)));
  }
}

/** False when another client changed the slot meanwhile. */
function* moveSlot(mover: Mover, slot: Address): Operation<boolean> {
  const word = yield* control.load(slot);
  const [low, high] = halves(word);
  if (isVacant(low, high)) return true;
  // An insertion that has not committed begins again: not printed, but not the bug shown here.
  if (!isLive(low, high)) {
    yield* control.swap(slot, word, joined(0, emptySlot(stampOf(high))));
    return false;
  }
  const { table, request, depth } = mover;
  yield* table.records.adopt(request, pointerOf(low, high), lengthOf(high));
  if (((request.hash.h1 >>> (depth - 1)) & 1) === 0) return true;
  // The paper also does not print that an update of the old slot fails from now on.
  const frozen = joined(low, withStamp(high, depth));
  if (word !== frozen && !(yield* control.swap(slot, word, frozen))) return false;
  if (yield* copyToChild(mover, frozen)) {
    mover.tally.moved++;
    yield* control.swap(slot, frozen, joined(0, emptySlot(depth)));
  } else {
    mover.tally.left++;
  }
  return true;
}

/** False when both combined buckets are full: the item stays where nobody looks any more. */
function* copyToChild({ table, request, child }: Mover, word: bigint): Operation<boolean> {
  const { geometry } = table;
  const { h2, h3 } = request.hash;
  for (const first of [geometry.firstChoice(h2), geometry.secondChoice(h2, h3)]) {
    const start = geometry.bucketAddress(child, first);
    const end = start + BUCKETS_PER_COMBINED * geometry.bucketBytes;
    for (let slot = start; slot < end; slot += 8) {
      if ((slot - start) % geometry.bucketBytes === 0) continue;
      const found = yield* control.load(slot);
      if (!isVacant(...halves(found))) continue;
      if (yield* control.swap(slot, found, word)) return true;
    }
  }
  return false;
}

function halves(word: bigint): [low: number, high: number] {
  return [Number(BigInt.asIntN(32, word)), Number(BigInt.asIntN(32, word >> 32n))];
}

function joined(low: number, high: number): bigint {
  return BigInt.asUintN(32, BigInt(low)) | (BigInt.asUintN(32, BigInt(high)) << 32n);
}
