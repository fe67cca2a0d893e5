import { Batch, highHalf, lowHalf, type Operation, Scratch } from '../../verbs/index.ts';
import { AHEAD, verdictOf } from './buckets.ts';
import { LEVEL_OF_PLACE } from './geometry.ts';
import { moveBucket, type View } from './move.ts';
import { isInUse, SETTLED_MASK, stampFor, stampOf } from './slot.ts';
import type { ShardRequest, ShardTable } from './table.ts';

/**
 * After an operation met a bucket that is not of the version it goes by. Ahead of it: the table
 * has been resized, and the root says how. Behind it: the bucket is moved by this client, its first
 * visitor (section 3.3), or the move that another one has begun is finished. Nobody waits.
 */
export function* catchUp(
  table: ShardTable,
  request: ShardRequest,
  place: number,
  attempt: number,
): Operation<void> {
  const stale = verdictOf(table, request, place) === AHEAD;
  yield* table.retry(request, stale ? 'staleVersion' : 'staleBucket', attempt);
  if (stale) {
    yield* table.segments.load();
    return;
  }
  const { words, at, buckets, version } = request;
  const view = { words, at: at[place] };
  const isRead = yield* bringTo(table, LEVEL_OF_PLACE[place], buckets[place], version, view);
  request.isRead = place === 0 && isRead;
  // Where the bucket is may have been learned only now.
  table.aim(request, place, LEVEL_OF_PLACE[place]);
}

/**
 * Moves a bucket to `version`, over all resizes that it has missed. Its keys may be in any of its
 * ancestors (the bucket's number without its highest bits, one after the other); one doorbell
 * finds the nearest that has been initialised. From there on the buckets are split in order.
 *
 *   bucket behind by one     D[CAS x n; READ bucket] -> D[CAS x 2n; READ bucket into the view]
 *   bucket never initialised one round trip more, for what to split and its content
 *
 * The view is the bucket as the caller has read it. Returns whether it is as after the moves.
 */
export function* bringTo(
  table: ShardTable,
  level: number,
  bucket: number,
  version: number,
  view?: View,
): Operation<boolean> {
  const { geometry, segments } = table;
  const bytes = geometry.bucketBytes[level];
  const tail =
    view &&
    ((batch: Batch) => {
      batch.read(segments.bucketAddress(level, bucket), bytes, view.words, view.at);
    });
  const { line, parent } = isInitialised(view, bytes)
    ? { line: [bucket] }
    : yield* lineOf(table, level, bucket);
  let isRead = line.length === 1 && view !== undefined;
  for (let i = line.length - 1; i > 0; i--) {
    const seen = line.length === 2 ? parent : undefined;
    isRead = yield* moveBucket(table, level, line[i], geometry.bornAt(line[i - 1]), { seen, tail });
  }
  // Not initialised as the caller saw it, but by another client since: the view is of no use.
  const seen = isRead && isInitialised(view, bytes) ? view : undefined;
  if (seen && isSettled(seen, bytes, version)) return true;
  return yield* moveBucket(table, level, bucket, version, { seen, tail });
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
}

/**
 * The bucket, its parent, and so on up to the first that has been initialised, which its first word
 * tells. The parent is read with them, because mostly it is that one.
 */
function* lineOf(table: ShardTable, level: number, bucket: number): Operation<Line> {
  const { geometry, segments } = table;
  const line = [bucket];
  for (let one = bucket; geometry.bornAt(one) > 0; ) {
    one = geometry.parentOf(one);
    line.push(one);
  }
  if (line.length === 1) return { line };
  const bytes = geometry.bucketBytes[level];
  const at = 8 * line.length;
  const words = new Scratch(at + bytes);
  const batch = new Batch();
  let isLearning: boolean;
  do {
    batch.clear();
    line.forEach((one, i) => {
      batch.read(segments.bucketAddress(level, one), 8, words, 8 * i);
    });
    yield batch.read(segments.bucketAddress(level, line[1]), bytes, words, at);
    const relocated = line.filter((one, i) =>
      segments.learnPlace(level, one, lowHalf(words, 8 * i), highHalf(words, 8 * i)),
    );
    isLearning = relocated.length > 0;
  } while (isLearning);
  const nearest = line.findIndex((_, i) => isInUse(highHalf(words, 8 * i)));
  return { line: line.slice(0, nearest + 1), parent: { words, at } };
}
