import type { Batch, Operation } from '../../../verbs/index.ts';
import type { Segments } from '../table/segments.ts';
import type { ShardTable } from '../table/table.ts';
import { DONE, Move, type View } from './move.ts';

/**
 * Moves a bucket to `version`, one resize after the other. Any number of clients may do this for
 * the same bucket at the same time and die anywhere. In the old bucket every step is a CAS from a
 * word that occurs once, because stamps only grow and a record's address is not used again while
 * any client moves; the new one is filled by one mover, see new-bucket.ts.
 *
 *   1  change every word of the old bucket: what is in flight fails       D[CAS x n; CAS take new;
 *      what goes to the new bucket is frozen, the rest is at once             READ bucket]
 *      what it is at the next version
 *   2  every fourth resize: read the records for their next segment ids   D[READ x m]
 *   3  fill and publish the new bucket                                    D[WRITE; CAS new;
 *   4  set what was frozen to the next version, the first word last         CAS x m]
 *
 * The first word of the old bucket is frozen until 3 is done. So a bucket all of whose words are of
 * a version has a complete new bucket. Until 3 is done no record that leaves can be changed, and no
 * client inserts; records that stay may be replaced and removed at once. From then on the frozen
 * words that leave mean nothing. Emptied slots become fresh ones; pending ones are dropped, and
 * their owners begin again. The overflow bit goes to both buckets, the chain of level 3 is shared
 * by both.
 *
 * Returns whether this client made the last step, and with it the READs of the tail.
 */
export function* moveBucket(
  table: ShardTable,
  level: number,
  bucket: number,
  version: number,
  { seen, tail, segments = table.segments }: MoveOptions = {},
): Operation<boolean> {
  const move = table.idleMoves.pop() ?? new Move(table);
  move.begin(segments, level, bucket, seen);
  let finished = false;
  while (move.isBelow(version) && (yield* move.freeze(version)) !== DONE) {
    yield* move.complete();
    yield* move.finish(tail);
    finished = true;
    table.bucketsMoved++;
  }
  table.idleMoves.push(move);
  return finished;
}

interface MoveOptions {
  /** The bucket as the caller has read it: spares the first round trip. */
  seen?: View;
  /** Adds READs behind the last step, for the caller of the move. */
  tail?: (batch: Batch) => void;
  /** Those that the bucket is in; the table's own when left out. */
  segments?: Segments;
}
