import { invariant } from '../../../errors.ts';
import { type Address, highHalf, lowHalf, type Operation } from '../../../verbs/index.ts';
import { suffixOf } from '../../substrates/directory.ts';
import { HEADER_AT, type SepHashRequest } from '../request.ts';
import { mainOf } from '../segments/header.ts';
import { parseFpTable, parseMainHeader } from '../segments/main-segment.ts';
import type { SepHashTable } from '../table.ts';

/** Points a request at its key's segment as the caches know it, without a round trip. */
export function aim(table: SepHashTable, request: SepHashRequest): void {
  const view = table.viewFor(request.hash.h1);
  request.view = view;
  request.metaLow = view.metaLow;
  request.metaHigh = view.metaHigh;
  request.slots = view.slots;
  request.marked = table.geometry.markedFingerprint(request.tag >>> 8);
}

/** Whether the caches know enough for an append. */
export function aimForAppend(table: SepHashTable, request: SepHashRequest): boolean {
  aim(table, request);
  const { view, marked } = request;
  if (marked === 0) request.markPosition = 0;
  else request.markPosition = view.cache?.isExact ? view.cache.start(marked) : -1;
  return view.knowsSlots && view.owns(request.hash.h1);
}

/** Whether the caches know enough for a search; the range of entries to read is then set. */
export function aimForSearch(table: SepHashTable, request: SepHashRequest): boolean {
  aim(table, request);
  const { view, tag } = request;
  if (view.cache === undefined || !view.owns(request.hash.h1)) return false;
  request.rangeStart = view.cache.start(request.marked);
  request.rangeEnd = view.cache.end(tag >>> 8);
  return true;
}

/**
 * Brings the caches up to date for the request's key. It takes 1 round trip after a merge that the
 * operation has met, 2 at the first use of a segment, and more to ask the directory.
 */
export function* catchUp(
  table: SepHashTable,
  request: SepHashRequest,
  attempt: number,
): Operation<void> {
  const { hash } = request;
  aim(table, request);
  const met = request.view;
  if (!met.knowsMain) yield* loadView(table, request);
  if (met.knowsSlots && met.owns(hash.h1)) {
    yield* table.retry(request, 'staleSegment', attempt);
    return;
  }
  yield* table.retry(request, 'staleDirectory', attempt);
  const header = yield* table.directory.refresh(hash.h1);
  if (header !== met.header) return;
  // The segment was split, and its splitter has not linked the sibling yet, or has died.
  request.view = met;
  request.fresh = undefined;
  yield* loadView(table, request);
  if (!met.owns(hash.h1)) yield* linkSibling(table, met.suffix, met.depth, met.sibling);
}

/** Reads the metadata, unless this operation has, and the beginning of its MainSegment. */
export function* loadView(table: SepHashTable, request: SepHashRequest): Operation<void> {
  const { view, batch, words, range } = request;
  if (request.fresh !== view) {
    yield batch.clear().read(view.header, 8, words, HEADER_AT);
    request.noteFresh(lowHalf(words, HEADER_AT), highHalf(words, HEADER_AT));
  }
  // This MainSegment was current during the operation, so its block is not reused before the end.
  const { freshLow, freshHigh } = request;
  const bytes = table.mainHeaderBytes;
  range.ensure(bytes);
  yield batch.clear().read(mainOf(freshLow, freshHigh), bytes, range, 0);
  const main = parseMainHeader(range, 0);
  const cache = table.cacheOf(main.count, () => parseFpTable(range, 0));
  view.learn(freshLow, freshHigh, main, cache);
  invariant(main.depth === view.depth, `a MainSegment of depth ${main.depth}`);
}

/**
 * Links the sibling of a segment, which now has this suffix and depth, into the directory if it is
 * missing there. The splitter does so, or the next client that meets the split.
 */
export function* linkSibling(
  table: SepHashTable,
  suffix: number,
  depth: number,
  sibling: Address,
): Operation<void> {
  if (sibling === 0) return;
  invariant(depth > 0, 'a segment that was never split has a sibling');
  const before = depth - 1;
  if (yield* table.directory.deepen(before)) table.doublings++;
  yield* table.directory.link(suffixOf(suffix, before), before, sibling);
}
