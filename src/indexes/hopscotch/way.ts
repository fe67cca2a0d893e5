import type { Operation } from '../../verbs/index.ts';
import { type ChimeRequest, IDENTITY_AT } from '../chime/leaf-client.ts';
import { addressOfLink, depthOfLink } from '../chime/link.ts';
import { suffixOf } from '../substrates/directory.ts';
import { halfFor, isFork } from './fork.ts';
import type { HopscotchTable } from './table.ts';

/** See `LeafClient.aim`: the way to a segment is one look into the directory as remembered. */
export function aim({ directory }: HopscotchTable, request: ChimeRequest): boolean {
  const at = directory.lookup(request.hash.h1);
  if (at < 0) return false;
  request.child = at;
  request.leafLow = directory.low(at);
  request.leafHigh = directory.high(at);
  request.leaf = addressOfLink(request.leafLow, request.leafHigh);
  return true;
}

/** See `LeafClient.reach`. */
export function* reach(table: HopscotchTable, request: ChimeRequest): Operation<void> {
  for (let step = 1; !aim(table, request); step++) {
    table.giveUpAfter(step);
    yield* table.directory.ensureLoaded();
    if (table.directory.lookup(request.hash.h1) < 0) yield* table.directory.find(request.hash.h1);
  }
}

/** See `LeafClient.leaveGone`: of a split, the first word leads to a fork. */
export function* leaveGone(
  table: HopscotchTable,
  request: ChimeRequest,
  attempt: number,
): Operation<void> {
  const { directory } = table;
  const { words, hash, leafHigh } = request;
  const to = { low: words.i32[IDENTITY_AT >> 2], high: words.i32[(IDENTITY_AT >> 2) + 1] };
  const known = isStillKnown(table, request);
  yield* table.retry(request, 'staleCache', attempt);
  if (!known) {
    yield* directory.find(hash.h1);
    return;
  }
  const now = isFork(to) ? yield* halfFor(table, to, hash.h1) : to;
  const depth = depthOfLink(now.high);
  if (depth >= depthOfLink(leafHigh)) directory.learn(suffixOf(hash.h1, depth), now);
}

function isStillKnown({ directory }: HopscotchTable, request: ChimeRequest): boolean {
  const { child, leafLow, leafHigh } = request;
  const same = directory.low(child) === leafLow && directory.high(child) === leafHigh;
  return same && directory.isKnown(child);
}
