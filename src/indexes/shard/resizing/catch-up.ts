import { invariant } from '../../../errors.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../../verbs/index.ts';
import { BucketWords } from '../../substrates/bucket-words.ts';
import { AHEAD, verdictOf } from '../operations/buckets.ts';
import { LEVEL_OF_PLACE, LEVEL3_LINK, LEVELS } from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import type { Segments } from '../table/segments.ts';
import {
  advanced,
  FROZEN,
  freshHigh,
  gone,
  isInUse,
  isLive,
  overflowAfterMove,
  SETTLED_MASK,
  stampFor,
  stampOf,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import { moveBucket, type View } from './move-bucket.ts';

/**
 * After an operation met a bucket that is not of the version it goes by. Ahead of it: the table
 * has been resized, and the root says how. Behind it: the bucket is moved by this client, its first
 * visitor (section 3.3), or the move that another one has begun is finished; for the one WRITE that
 * fills the new bucket it waits no longer than its patience lasts (new-bucket.ts).
 */
export function* catchUp(
  table: ShardTable,
  request: ShardRequest,
  place: number,
  attempt: number,
): Operation<void> {
  const stale = verdictOf(table, request, place) === AHEAD;
  yield* table.retry(request, stale ? 'staleVersion' : 'staleBucket', attempt);
  const { words, at, buckets, version, segments } = request;
  if (stale) {
    yield* table.load();
    refuseFuture(table, request, place);
    return;
  }
  const view = { words, at: at[place] };
  const level = LEVEL_OF_PLACE[place];
  const isRead = yield* bringTo(table, level, buckets[place], version, view, segments);
  request.isRead = place === 0 && isRead;
  // Where the bucket is may have been learned only now.
  table.aim(request, place, LEVEL_OF_PLACE[place]);
}

/**
 * Raises SW_POOL_CORRUPT when a bucket is of a version that its table, whose root has been read
 * since, has never had. The root comes first in a resize, so it has lost segments.
 */
function refuseFuture(
  table: ShardTable,
  { words, at, buckets, segments }: ShardRequest,
  place: number,
): void {
  // Migrated meanwhile, or looked up anew: the words say nothing of the table as it is now.
  if (table.segments !== segments) return;
  const bytes = table.geometry.bucketBytes[LEVEL_OF_PLACE[place]];
  for (let i = at[place]; i < at[place] + bytes; i += 8) {
    const version = stampOf(highHalf(words, i)) - 1;
    if (version <= segments.version) continue;
    const bucket = `bucket ${buckets[place]} is of version ${version}`;
    invariant(false, `${bucket}, and its table of ${segments.version}`);
  }
}

/**
 * Moves a bucket to `version`, over all resizes that it has missed. Its keys may be in any of its
 * ancestors (the bucket's number without its highest bits, one after the other); one doorbell finds
 * the nearest that has been initialised. From there on the buckets are split in order. In a table
 * that is being migrated it may be that none has: the eldest is fetched then (`fetchBucket`).
 *
 *   bucket behind by one      D[CAS each word; CAS take new; READ bucket]
 *                             -> D[WRITE new; CAS publish new; CAS what was frozen; READ view]
 *   bucket never initialised  one round trip more, for what to split and its content
 *   bucket not fetched        three round trips (`fetchBucket`)
 *
 * The view is the bucket as the caller has read it. Returns whether it is as after the moves.
 */
export function* bringTo(
  table: ShardTable,
  level: number,
  bucket: number,
  version: number,
  view?: View,
  segments: Segments = table.segments,
): Operation<boolean> {
  const { geometry } = table;
  const bytes = geometry.bucketBytes[level];
  const tail =
    view &&
    ((batch: Batch) => {
      batch.read(segments.bucketAddress(level, bucket), bytes, view.words, view.at);
    });
  const isOld = isInitialised(view, bytes);
  const { line, parent, isFetched } = isOld
    ? { line: [bucket] }
    : yield* lineOf(table, segments, level, bucket, tail);
  let isRead = line.length === 1 && view !== undefined && (isOld || isFetched === true);
  for (let i = line.length - 1; i > 0; i--) {
    const seen = line.length === 2 ? parent : undefined;
    const goal = geometry.bornAt(line[i - 1]);
    isRead = yield* moveBucket(table, level, line[i], goal, { seen, tail, segments });
  }
  // Not initialised as the caller saw it, but by another client since: the view is of no use.
  const seen = isRead && isInitialised(view, bytes) ? view : undefined;
  if (seen && isSettled(seen, bytes, version)) return true;
  return yield* moveBucket(table, level, bucket, version, { seen, tail, segments });
}

/** Every word of it: those of one READ are of different times. */
function isInitialised(view: View | undefined, bytes: number): view is View {
  if (view === undefined) return false;
  for (let i = 0; i < bytes; i += 8) {
    if (stampOf(highHalf(view.words, view.at + i)) === 0) return false;
  }
  return true;
}

function isSettled({ words, at }: View, bytes: number, version: number): boolean {
  for (let i = at; i < at + bytes; i += 8) {
    if ((highHalf(words, i) & SETTLED_MASK) !== stampFor(version)) return false;
  }
  return true;
}

interface Line {
  line: number[];
  /** The parent, as it was read when it was initialised already. */
  parent?: View;
  /** Whether the last bucket of the line was fetched just now. */
  isFetched?: boolean;
}

/**
 * The bucket, its parent, and so on up to the first that has been initialised, which its first word
 * tells. The parent is read with them, because mostly it is that one.
 */
function* lineOf(
  table: ShardTable,
  segments: Segments,
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<Line> {
  const { geometry } = table;
  // Those of a version before are fetched, one by one: there is no line between them.
  const { former } = segments;
  const eldest = former === undefined ? 0 : segments.fetchedAt;
  const line = [bucket];
  for (let one = bucket; geometry.bornAt(one) > eldest; ) {
    one = geometry.parentOf(one);
    line.push(one);
  }
  if (line.length === 1) {
    if (former === undefined) return { line };
    const isFetched = yield* fetch(table, { segments, former }, level, bucket, tail);
    return { line, isFetched };
  }
  const bytes = geometry.bucketBytes[level];
  const at = 8 * line.length;
  const words = new Scratch(at + bytes);
  const batch = new Batch();
  // Each bucket is relocated once, maybe while this reads.
  for (let reads = 0, isLearning = true; isLearning; reads++) {
    invariant(reads <= line.length, `a bucket of the line of ${bucket} is relocated twice`);
    batch.clear();
    line.forEach((one, i) => {
      batch.read(segments.bucketAddress(level, one), 8, words, 8 * i);
    });
    yield batch.read(segments.bucketAddress(level, line[1]), bytes, words, at);
    const relocated = line.filter((one, i) =>
      segments.learnPlace(level, one, lowHalf(words, 8 * i), highHalf(words, 8 * i)),
    );
    isLearning = relocated.length > 0;
  }
  const nearest = line.findIndex((_, i) => isInUse(highHalf(words, 8 * i)));
  if (nearest >= 0) return { line: line.slice(0, nearest + 1), parent: { words, at } };
  invariant(former !== undefined, 'the eldest bucket of a line is initialised, or fetched');
  yield* fetch(table, { segments, former }, level, line[line.length - 1]);
  return { line };
}

/** Brings the bucket to the version of the migration where it was, and fetches it from there. */
function* fetch(
  table: ShardTable,
  journey: Journey,
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<boolean> {
  yield* bringTo(table, level, bucket, journey.segments.fetchedAt, undefined, journey.former);
  return yield* fetchBucket(table, journey, level, bucket, tail);
}

const FREEZE_ROUNDS_MAX = 10_000;
/** Of a doorbell besides the CASes of a bucket's words. */
const OTHER_VERBS = 1;

/** The segments of a table that is being migrated, and those that it comes from. */
interface Journey {
  readonly segments: Segments;
  readonly former: Segments;
}

/**
 * Fetches a bucket of a table that is being migrated from where it was, as it is at the version of
 * the migration. It is a move (move-bucket.ts) to a new bucket that everything leaves for:
 *
 *   1  the old bucket is brought to the version, as ever (the caller)
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
function* fetchBucket(
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
