import { hasCode, invariant } from '../../errors.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { IMAGE_AT, type LeafRequest } from '../substrates/leaf/leaf-request.ts';
import {
  eachIndirect,
  eachInline,
  ItemCounts,
  paintEntries,
  readPicture,
} from '../substrates/leaf/picture.ts';
import { SuffixOrder } from '../traversal/part-orders.ts';
import type { Parts } from '../traversal/parts.ts';
import { depthIn, suffixIn } from './bounds.ts';
import type { HopscotchTable } from './table.ts';

/** Traverses the table one segment at a time. */
export class HopscotchParts implements Parts<LeafRequest> {
  readonly order: SuffixOrder;
  readonly #table: HopscotchTable;
  /** The segment read last. */
  readonly picture: LeafRequest;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(table: HopscotchTable, cursor = 0) {
    this.order = new SuffixOrder({ end: 1, step: 1 }, cursor);
    this.#table = table;
    this.picture = table.newRequest();
  }

  /** Reads a consistent snapshot of the next segment. */
  *read(): Operation<void> {
    this.picture.hash.h1 = this.order.position.suffix;
    yield* readPicture(this.#table, this.picture);
    this.#arrive();
  }

  /** As `read`, for estimates: settles for an inconsistent read if writers keep interfering. */
  *readAsItIs(): Operation<void> {
    try {
      yield* this.read();
    } catch (error) {
      if (!hasCode(error, 'SW_CONTENTION')) throw error;
      this.#arrive();
    }
  }

  #arrive(): void {
    const { words, leaf } = this.picture;
    const depth = depthIn(words, IMAGE_AT);
    const isDepth = depth <= this.#table.directory.maxDepth;
    invariant(isDepth, `the segment at ${leaf} has a depth of ${depth}`);
    this.order.arrive(depth, 1);
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    eachIndirect(this.#table, this.picture, visit);
  }

  eachInline(request: LeafRequest, visit: (one: LeafRequest, keyBytes: number) => void): void {
    eachInline(this.#table, this.picture, request, visit);
  }

  eachBlock(visit: (address: Address) => void): void {
    visit(this.picture.leaf);
  }
}

/** Counts entries without reading records. It succeeds however much other clients write. */
export function* shapeOf(table: HopscotchTable): Operation<IndexShape> {
  const parts = new HopscotchParts(table);
  const items = new ItemCounts();
  let subtables = 0;
  for (; !parts.order.done; parts.order.pass()) {
    yield* parts.readAsItIs();
    items.add(table, parts.picture);
    subtables++;
  }
  const globalDepth = yield* table.directory.parts.readDepth();
  return { globalDepth, subtables, slots: subtables * table.geometry.shape.span, ...items };
}

/** Draws some segments. It may miss a key that moves meanwhile, or show it twice. */
export function* paint(table: HopscotchTable, partsMax: number): Operation<IndexPicture> {
  const { directory, geometry } = table;
  const segments = directory.subtables();
  const shown: PicturePart[] = [];
  for (const segment of spread(segments, partsMax)) {
    const words = new Scratch(geometry.leafBytes);
    yield new Batch().read(segment, geometry.leafBytes, words, 0);
    const suffix = suffixIn(words, 0) >>> 0;
    const depth = depthIn(words, 0);
    const name = suffix.toString(2).padStart(depth, '0');
    shown.push({ name, suffix, depth, ...paintEntries(geometry, words) });
  }
  const layer = { parts: 'segments', cell: 'entry', total: segments.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}
