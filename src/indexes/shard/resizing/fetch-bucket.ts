import { invariant } from '../../../errors.ts';
import type { Address, Batch, Operation } from '../../../verbs/index.ts';
import { BucketWords } from '../../substrates/bucket-words.ts';
import { LEVEL3_LINK, LEVELS } from '../table/geometry.ts';
import type { Segments } from '../table/segments.ts';
import {
  advanced,
  FROZEN,
  freshHigh,
  gone,
  isLive,
  overflowAfterMove,
  stampOf,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';

const FREEZE_ROUNDS_MAX = 10_000;
/** Of a doorbell besides the CASes of a bucket's words. */
const OTHER_VERBS = 1;

/** The segments of a table that is being migrated, and those that it comes from. */
export interface Journey {
  readonly segments: Segments;
  readonly former: Segments;
}

/**
 * Fetches a bucket of a table that is being migrated from where it was, as it is at the version of
 * the migration. It is a move (move.ts) to a new bucket that everything leaves for:
 *
 *   1  the old bucket is brought to the version, as ever (the caller, catch-up.ts)
 *   2  freeze every word of it, as one of a later version                D[CAS x n; READ bucket]
 *   3  set every word of the new bucket, from 0, at the same index       D[CAS x n; READ new]
 *
 * A client at the old place finds words of a later version there, so it reads the root, which has
 * been telling of the new place since before the first word was frozen. Frozen words stay as they
 * are for ever: a late client sets the same words, from 0, which they are no more. No client
 * writes to a bucket before all of its words are set, so while one may still be written to in the
 * old place, nothing can be written in the new one. Emptied slots become fresh and pending ones are
 * dropped, as by every move.
 *
 * Any number of clients may fetch the same bucket and die anywhere. Returns true: the new bucket
 * has been read by the tail.
 */
export function* fetchBucket(
  table: ShardTable,
  { segments, former }: Journey,
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<boolean> {
  const { fetchedAt } = segments;
  const bytes = table.geometry.bucketBytes[level];
  const old = new BucketWords();
  old.ensure(bytes, (bytes >> 3) + OTHER_VERBS);
  yield* freeze(old, former.bucketAddress(level, bucket), fetchedAt, bytes);
  const address = segments.bucketAddress(level, bucket);
  old.batch.clear();
  // The first word last, because it tells whether a bucket is in use.
  for (let i = 8; i <= bytes; i += 8) {
    const at = i % bytes;
    const low = old.low(at);
    const high = old.high(at);
    const stays = isLive(low, high) || (level === LEVELS - 1 && at === LEVEL3_LINK);
    const fresh = freshHigh(fetchedAt) | overflowAfterMove(high);
    const next = stays ? advanced(high, fetchedAt, undefined) : fresh;
    old.postSwap(address + at, 0, 0, stays ? low : 0, next);
  }
  tail?.(old.batch);
  yield old.batch;
  table.bucketsMoved++;
  return true;
}

/** Step 2; leaves the bucket as it stays. */
function* freeze(
  old: BucketWords,
  address: Address,
  version: number,
  bytes: number,
): Operation<void> {
  yield* old.read(address, bytes);
  for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
    old.batch.clear();
    for (let at = 0; at < bytes; at += 8) {
      const low = old.low(at);
      const high = old.high(at);
      if (stampOf(high) - 1 > version) continue;
      invariant((high & FROZEN) === 0, 'a table that has left is not resized');
      invariant(
        stampOf(high) - 1 === version,
        'a bucket is fetched that was not brought up to date',
      );
      old.postSwap(address + at, low, high, low, gone(high, version));
    }
    if (old.batch.length === 0) return;
    yield old.postRead(address, bytes);
  }
  invariant(false, 'a bucket cannot be frozen');
}
