import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { suffixOf } from '../substrates/directory.ts';
import { LeafCheck } from '../substrates/leaf/check-leaf.ts';
import { IMAGE_AT, type LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { depthIn, suffixIn } from './bounds.ts';
import { type Position, SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

const START: Position = { suffix: 0, depth: 0 };
const SEGMENTS_TOGETHER = 16;

/**
 * Verifies every invariant of a table, after putting the children of splits into the directory that
 * clients which died have not: no segment is deeper than the directory, every item is intact, in
 * the segment of its key, in its neighbourhood, and there only once.
 */
export function* checkTable(table: HopscotchTable, sink: CheckSink): Operation<number> {
  const check = new LeafCheck(table, sink);
  const { each } = sink;
  let position: Position | undefined = START;
  while (position !== undefined) {
    const pictures: LeafRequest[] = [];
    // Where records are far away, those of several segments are read together.
    while (position !== undefined && pictures.length < (each ? SEGMENTS_TOGETHER : 1)) {
      const walk: SegmentWalk = new SegmentWalk(table, position);
      pictures.push(yield* walk.next());
      position = walk.position;
    }
    const checkOne = (picture: LeafRequest) => checkSegment(table, sink, check, picture);
    if (each) yield* each(pictures, checkOne);
    else for (const picture of pictures) yield* checkOne(picture);
  }
  return check.records;
}

function* checkSegment(
  table: HopscotchTable,
  sink: CheckSink,
  check: LeafCheck,
  picture: LeafRequest,
): Operation<void> {
  const { words, leaf } = picture;
  const suffix = suffixIn(words, IMAGE_AT);
  const depth = depthIn(words, IMAGE_AT);
  sink.reachable(leaf, table.geometry.leafUnits);
  if (depth > table.directory.depth) sink.problem(`segment at ${leaf}: deeper than the directory`);
  yield* check.leaf(picture, (_, h1) => suffixOf(h1, depth) === suffix);
}
