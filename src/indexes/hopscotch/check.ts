import { hasCode } from '../../errors.ts';
import type { KeyHash } from '../../records/hash.ts';
import type { Operation } from '../../verbs/index.ts';
import { LeafCheck } from '../chime/check-leaf.ts';
import { addressOfLink, depthOfLink } from '../chime/link.ts';
import { type Link, unitsOfNode, type Visit } from '../chime/node-io.ts';
import type { CheckSink } from '../contract.ts';
import { suffixOf } from '../substrates/directory.ts';
import { mend } from './mend.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/**
 * Verifies every invariant of a table, after finishing what clients that died have left half done,
 * as far as the pool has room for it: no segment is deeper than the directory, every record is
 * intact, in the segment of its key, in its neighbourhood, under its fingerprint and size, without
 * a hint, and there only once.
 */
export function* checkTable(table: HopscotchTable, sink: CheckSink): Operation<number> {
  table.directory.begin();
  yield* mendAll(table);
  const check = new LeafCheck(table, sink);
  const depthMax = yield* table.directory.readDepth();
  const reached = new Set<number>();
  const reach = ({ low, high }: Link) => {
    const address = addressOfLink(low, high);
    if (!reached.has(address)) sink.reachable(address, unitsOfNode(table, high));
    reached.add(address);
  };
  const walk = new SegmentWalk(table);
  while (walk.position !== undefined) {
    const { suffix } = walk.position;
    const { segment, replaced } = yield* walk.next();
    // On the way to either half of a split that is not in the directory.
    for (const link of replaced) reach(link);
    reach(segment);
    yield* checkSegment(check, segment, suffix, depthMax, sink);
  }
  return check.records;
}

function* mendAll(table: HopscotchTable): Operation<void> {
  const walk = new SegmentWalk(table);
  const request = table.newRequest();
  while (walk.position !== undefined) {
    request.hash.h1 = walk.position.suffix;
    try {
      yield* mend(table, request);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    }
    yield* walk.next();
  }
}

function* checkSegment(
  check: LeafCheck,
  segment: Visit,
  suffix: number,
  depthMax: number,
  sink: CheckSink,
): Operation<void> {
  const depth = depthOfLink(segment.high);
  const where = `segment at ${segment.address}`;
  if (depth > depthMax) sink.problem(`${where}: deeper than the directory`);
  const belongs = (_: Uint8Array, { h1 }: KeyHash) => suffixOf(h1, depth) === suffix;
  yield* check.leaf(segment, belongs, () => 0);
}
