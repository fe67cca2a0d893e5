import { invariant } from '../../errors.ts';
import { Batch, CAS_BYTES, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import { bringTo } from './catch-up.ts';
import { LEVEL3_LINK, LEVELS } from './geometry.ts';
import type { Segments } from './segments.ts';
import { advanced, FROZEN, freshHigh, gone, isLive, overflowAfterMove, stampOf } from './slot.ts';
import type { ShardTable } from './table.ts';

const FREEZE_ROUNDS_MAX = 10_000;

/**
 * Fetches a bucket of a table that is being migrated from where it was, as it is at the version of
 * the migration. It is a move (move.ts) to a new bucket that everything leaves for:
 *
 *   1  the old bucket is brought to the version, as ever
 *   2  freeze every word of it, as one of a later version                D[CAS x n; READ bucket]
 *   3  set every word of the new bucket, from 0, at the same index       D[CAS x n; READ new]
 *
 * Who goes by the old place finds words of a later version there, so it reads the root, which has
 * been telling of the new place since before the first word was frozen. Frozen words stay as they
 * are for ever: whoever comes late sets the same words, from 0, which they are no more. Nobody
 * writes to a bucket before all of its words are set, so while one may still be written to in the
 * old place, nothing can be written in the new one. Emptied slots become fresh and pending ones are
 * dropped, as by every move.
 *
 * Any number of clients may fetch the same bucket and die anywhere. Returns true: the new bucket
 * has been read by the tail.
 */
export function* fetchBucket(
  table: ShardTable,
  { segments, former }: { segments: Segments; former: Segments },
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<boolean> {
  const { geometry } = table;
  const { fetchedAt } = segments;
  yield* bringTo(table, level, bucket, fetchedAt, undefined, former);
  const bytes = geometry.bucketBytes[level];
  const words = yield* freeze(former, level, bucket, fetchedAt, bytes);
  const batch = new Batch();
  const swaps = new Scratch(CAS_BYTES * (bytes >> 3));
  const address = segments.bucketAddress(level, bucket);
  // In this order, because the last word tells whether a bucket is initialised.
  for (let at = 0; at < bytes; at += 8) {
    const [low, high] = [words.i32[at >> 2], words.i32[(at >> 2) + 1]];
    const swap = CAS_BYTES * (at >> 3);
    const stays = isLive(low, high) || (level === LEVELS - 1 && at === LEVEL3_LINK);
    const fresh = freshHigh(fetchedAt) | overflowAfterMove(high);
    setWord(swaps, swap + 8, stays ? low : 0, stays ? advanced(high, fetchedAt, undefined) : fresh);
    batch.cas(address + at, swaps, swap);
  }
  tail?.(batch);
  yield batch;
  table.bucketsMoved++;
  return true;
}

/** Step 2; returns the bucket as it stays. */
function* freeze(
  former: Segments,
  level: number,
  bucket: number,
  version: number,
  bytes: number,
): Operation<Scratch> {
  const words = new Scratch(bytes);
  const swaps = new Scratch(CAS_BYTES * (bytes >> 3));
  const batch = new Batch();
  const address = former.bucketAddress(level, bucket);
  yield batch.read(address, bytes, words, 0);
  for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
    batch.clear();
    for (let at = 0; at < bytes; at += 8) {
      const [low, high] = [words.i32[at >> 2], words.i32[(at >> 2) + 1]];
      if (stampOf(high) - 1 > version) continue;
      invariant((high & FROZEN) === 0, 'a table that has left is not resized');
      const swap = CAS_BYTES * batch.length;
      setWord(swaps, swap, low, high);
      setWord(swaps, swap + 8, low, gone(high, version));
      batch.cas(address + at, swaps, swap);
    }
    if (batch.length === 0) return words;
    yield batch.read(address, bytes, words, 0);
  }
  return invariant(false, 'a bucket cannot be frozen') as never;
}
