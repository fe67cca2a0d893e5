import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { suffixOf } from '../substrates/directory.ts';
import { LeafCheck } from '../substrates/leaf/check-leaf.ts';
import { IMAGE_AT, type LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { depthIn, suffixIn } from './bounds.ts';
import { HopscotchParts } from './parts.ts';
import type { HopscotchTable } from './table.ts';

const SEGMENTS_TOGETHER = 16;

/**
 * Verifies every invariant of a table, after linking the children of splits that dead clients left
 * out of the directory. No segment is deeper than the directory. Every item is intact, in the
 * segment of its key, in its neighbourhood, and only there.
 */
export function* checkTable(table: HopscotchTable, sink: CheckSink): Operation<number> {
  const check = new LeafCheck(table, sink);
  const { each } = sink;
  let cursor = 0;
  do {
    const pictures: LeafRequest[] = [];
    // Where records are far away, those of several segments are read together.
    do {
      const parts = new HopscotchParts(table, cursor);
      yield* parts.read();
      pictures.push(parts.picture);
      parts.order.pass();
      cursor = parts.order.cursor;
    } while (cursor !== 0 && each && pictures.length < SEGMENTS_TOGETHER);
    const checkOne = (picture: LeafRequest) => checkSegment(table, sink, check, picture);
    if (each) yield* each(pictures, checkOne);
    else for (const picture of pictures) yield* checkOne(picture);
  } while (cursor !== 0);
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
