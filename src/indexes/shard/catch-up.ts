import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { AHEAD, verdictOf } from './buckets.ts';
import { LEVEL_OF_PLACE } from './geometry.ts';
import { moveBucket } from './move.ts';
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
  if (stale) yield* table.segments.load();
  else yield* bringTo(table, LEVEL_OF_PLACE[place], request.buckets[place], request.version);
}

/**
 * Moves a bucket to `version`, over all resizes that it has missed. Its keys may be in any of its
 * ancestors (the bucket's number without its highest bits, one after the other); one doorbell
 * finds the nearest that has been initialised. From there on the buckets are split in order.
 */
export function* bringTo(
  table: ShardTable,
  level: number,
  bucket: number,
  version: number,
): Operation<void> {
  const { geometry } = table;
  const line = yield* uninitialised(table, level, bucket);
  for (let i = line.length - 1; i > 0; i--) {
    yield* moveBucket(table, level, line[i], geometry.bornAt(line[i - 1]));
  }
  yield* moveBucket(table, level, bucket, version);
}

/**
 * The bucket, its parent, and so on up to the first that has been initialised. A bucket is
 * initialised in the order of its words, so its last one tells.
 */
function* uninitialised(table: ShardTable, level: number, bucket: number): Operation<number[]> {
  const { geometry, segments } = table;
  const line = [bucket];
  for (let one = bucket; geometry.bornAt(one) > 0; ) {
    one = geometry.parentOf(one);
    line.push(one);
  }
  if (line.length === 1) return line;
  const words = new Scratch(8 * line.length);
  const last = geometry.bucketBytes[level] - 8;
  const batch = new Batch();
  line.forEach((one, i) => {
    batch.read(segments.bucketAddress(level, one) + last, 8, words, 8 * i);
  });
  yield batch;
  const nearest = line.findIndex((_, i) => words.i64[i] !== 0n);
  return line.slice(0, nearest + 1);
}
