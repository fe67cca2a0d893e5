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
 * Runs after an operation met a bucket of another version than it assumed. If the bucket is ahead,
 * the table has been resized, and the client reads the root. If the bucket is behind, this client
 * is its first visitor since the resize and moves it (section 3.3), or completes the move that
 * another client has begun. It waits for that client only while a single WRITE fills the new
 * bucket, and only for `patience` (new-bucket.ts).
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
  // The client may have learned only now that the bucket was relocated.
  table.locateBucket(request, place);
}

/**
 * Raises SW_POOL_CORRUPT when a bucket has a version that its table never had. A resize changes the
 * root before any bucket, and this root was read after the bucket: so it has lost segments.
 */
function refuseFuture(
  table: ShardTable,
  { words, at, buckets, segments }: ShardRequest,
  place: number,
): void {
  // The client uses other segments by now, about which this bucket says nothing.
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
 * Moves a bucket to `version`, through all resizes that it has missed. The keys of a bucket that
 * was never initialised are in an ancestor: its number without the highest bit, without the highest
 * two, and so on. One doorbell finds the nearest initialised ancestor; from there the buckets are
 * split in order. During a migration there may be none: then the eldest is fetched from the old
 * table (`fetchBucket`).
 *
 *   bucket behind by one      D[CAS each word; CAS take new; READ bucket]
 *                             -> D[WRITE new; CAS publish new; CAS frozen words; READ view]
 *   bucket never initialised  one more round trip, for the ancestors
 *   bucket not fetched        three round trips (`fetchBucket`)
 *
 * `view` is the bucket as the caller read it. Returns whether `view` holds the moved bucket.
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
    isRead = yield* moveBucket(table, segments, level, line[i], goal, { seen, tail });
  }
  // If another client initialised the bucket only after the caller read it, the view is outdated.
  const seen = isRead && isInitialised(view, bytes) ? view : undefined;
  if (seen && isSettled(seen, bytes, version)) return true;
  return yield* moveBucket(table, segments, level, bucket, version, { seen, tail });
}

/** Brings all buckets that there were at version `from` to `version`, level by level. */
export function* bringAll(
  table: ShardTable,
  segments: Segments,
  from: number,
  version: number,
): Operation<void> {
  for (let level = 0; level < LEVELS; level++) {
    for (let bucket = 0; bucket < table.geometry.bucketsAt(from); bucket++) {
      yield* bringTo(table, level, bucket, version, undefined, segments);
    }
  }
}

/** Checks every word, because the words of one READ may be of different times. */
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
  /** The parent's words, if the line ends with the parent. */
  parent?: View;
  /** Whether the last bucket of the line was fetched just now. */
  isFetched?: boolean;
}

/**
 * Returns the bucket, its parent, and so on up to the first initialised one, judged by their first
 * words. Reads the parent whole in the same doorbell, because the line usually ends there.
 */
function* lineOf(
  table: ShardTable,
  segments: Segments,
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<Line> {
  const { geometry } = table;
  // A bucket from before the migration has no ancestor here: it is fetched on its own.
  const { former } = segments;
  const eldest = former === undefined ? 0 : segments.fetchedAt;
  const line = [bucket];
  for (let one = bucket; geometry.bornAt(one) > eldest; ) {
    one = geometry.parentOf(one);
    line.push(one);
  }
  if (line.length === 1) {
    if (former === undefined) return { line };
    yield* fetchBucket(table, { segments, former }, level, bucket, tail);
    return { line, isFetched: true };
  }
  const bytes = geometry.bucketBytes[level];
  const at = 8 * line.length;
  const words = new Scratch(at + bytes);
  const batch = new Batch();
  // A bucket is relocated at most once, but perhaps during this loop.
  for (let reads = 0, isLearning = true; isLearning; reads++) {
    invariant(reads <= line.length, `a bucket of the line of ${bucket} is relocated twice`);
    batch.clear();
    for (const [i, one] of line.entries()) {
      batch.read(segments.bucketAddress(level, one), 8, words, 8 * i);
    }
    yield batch.read(segments.bucketAddress(level, line[1]), bytes, words, at);
    const relocated = line.filter((one, i) =>
      segments.learnPlace(level, one, lowHalf(words, 8 * i), highHalf(words, 8 * i)),
    );
    isLearning = relocated.length > 0;
  }
  const nearest = line.findIndex((_, i) => isInUse(highHalf(words, 8 * i)));
  if (nearest >= 0) return { line: line.slice(0, nearest + 1), parent: { words, at } };
  invariant(former !== undefined, 'the eldest bucket of a line is initialised, or fetched');
  yield* fetchBucket(table, { segments, former }, level, line[line.length - 1]);
  return { line };
}

const FREEZE_ROUNDS_MAX = 10_000;
/** Verbs in a doorbell besides the CASes of a bucket's words. */
const OTHER_VERBS = 1;

/** The segments of a table that is being migrated, and the old ones that it comes from. */
interface Migration {
  readonly segments: Segments;
  readonly former: Segments;
}

/**
 * Fetches a bucket of a migrating table from its old place, at the migration's version. This is a
 * move (move-bucket.ts) after which nothing stays in the old bucket:
 *
 *   1  bring the old bucket to the version, like any other
 *   2  freeze every word of it, with the stamp of a later version       D[CAS x n; READ bucket]
 *   3  CAS every word of the new bucket from 0, at the same index       D[CAS x n; READ new]
 *
 * A client that uses the old place finds words of a later version there, so it reads the root. The
 * root has named the new place since before the first word was frozen. Frozen words never change: a
 * late client tries to set the same words, and its CASes from 0 fail. No client writes to a bucket
 * before all of its words are set, and none is set before the old bucket is frozen. So the old and
 * the new bucket are never writable at the same time. As in every move, emptied slots become fresh
 * and pending ones are dropped.
 *
 * Any number of clients may fetch the same bucket and die anywhere. The tail reads the new bucket.
 */
function* fetchBucket(
  table: ShardTable,
  { segments, former }: Migration,
  level: number,
  bucket: number,
  tail?: (batch: Batch) => void,
): Operation<void> {
  const { fetchedAt } = segments;
  yield* bringTo(table, level, bucket, fetchedAt, undefined, former);
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
}

/** Step 2. Afterwards `old` holds the frozen words. */
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
      const isUpToDate = stampOf(high) - 1 === version;
      invariant(isUpToDate, 'a bucket is fetched that was not brought up to date');
      old.postSwap(address + at, low, high, low, gone(high, version));
    }
    if (old.batch.length === 0) return;
    yield old.postRead(address, bytes);
  }
  invariant(false, 'a bucket cannot be frozen');
}
