import { invariant } from '../../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../../pool/layout.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import { ANY_NODE } from '../../../pool/memory/chunks.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { addressesIn, isListOf, listBytes, writeList } from '../../substrates/address-list.ts';
import type { ShardGeometry } from './geometry.ts';
import { freshHigh } from './slot.ts';

/**
 * Where a segment is: in one piece or, if it is too large for that, in several (geometry.ts), whose
 * addresses are in a list. The list is a block (address-list.ts, with the number of pieces) that is
 * written before the root points to it, and never changed.
 */
export interface SegmentPlace {
  pieces: readonly Address[];
  /** NULL_ADDRESS if the segment is one piece. */
  list: Address;
}

/** The parts of a table that making a segment takes. */
export interface SegmentMaker {
  readonly allocator: Allocator;
  readonly catalog: number;
  readonly geometry: ShardGeometry;
}

const WRITE_BYTES = 32 * 1024;

export function listUnits(pieces: number): number {
  return Math.ceil(listBytes(pieces) / UNIT_BYTES);
}

/** Raises SW_POOL_CORRUPT if the block is not an intact list of this many pieces. */
export function* readList(list: Address, count: number): Operation<Address[]> {
  const words = new Scratch(listBytes(count));
  yield new Batch().read(list, listBytes(count), words, 0);
  const pieces = addressesIn(words, count);
  invariant(
    isListOf(words, count, pieces),
    `the list at ${list} does not hold the ${count} pieces of a segment`,
  );
  return pieces;
}

/**
 * Allocates a segment whose words are all 0, not yet initialised; all of it or nothing. Raises
 * SW_POOL_FULL, even if only the requested node is full.
 */
export function* makeSegment(
  maker: SegmentMaker,
  segment: number,
  node: number = ANY_NODE,
): Operation<SegmentPlace> {
  const { geometry } = maker;
  const pieces: Address[] = [];
  const first = geometry.firstPiece(segment);
  try {
    while (pieces.length < geometry.piecesOf(segment)) {
      const units = geometry.pieceUnits(first + pieces.length);
      pieces.push(yield* makePiece(maker, units, node));
    }
    const list = pieces.length > 1 ? yield* makeList(maker, pieces, node) : NULL_ADDRESS;
    return { pieces, list };
  } catch (error) {
    yield* discardSegment(maker, segment, { pieces, list: NULL_ADDRESS });
    throw error;
  }
}

/** Makes the first segment of a new table, with fresh slots. It is always one piece. */
export function* makeFirstSegment(maker: SegmentMaker, node: number): Operation<Address> {
  const { pieces } = yield* makeSegment(maker, 0, node);
  yield* fill(pieces[0], maker.geometry.segmentUnits(0) * UNIT_BYTES, freshHigh(0));
  return pieces[0];
}

function* makePiece(
  { allocator, catalog }: SegmentMaker,
  units: number,
  node: number,
): Operation<Address> {
  const address = yield* allocator.allocate(catalog, units, node);
  // Spans are zeroed; a block may still have its former contents.
  if (units <= BLOCK_UNITS_MAX) yield* fill(address, units * UNIT_BYTES, 0);
  return address;
}

function* makeList(
  { allocator, catalog }: SegmentMaker,
  pieces: readonly Address[],
  node: number,
): Operation<Address> {
  const list = yield* allocator.allocate(catalog, listUnits(pieces.length), node);
  const bytes = listBytes(pieces.length);
  const image = new Scratch(bytes);
  writeList(image, pieces.length, pieces);
  yield new Batch().write(list, bytes, image, 0);
  return list;
}

/** Sets all words of a range to an empty entry with this high half. */
function* fill(address: Address, bytes: number, high: number): Operation<void> {
  const image = new Scratch(Math.min(bytes, WRITE_BYTES));
  for (let at = 0; at < image.u8.length; at += 8) setWord(image, at, 0, high);
  for (let at = 0; at < bytes; at += WRITE_BYTES) {
    yield new Batch().write(address + at, Math.min(WRITE_BYTES, bytes - at), image, 0);
  }
}

/** Frees a segment, or some of its pieces, that this client has not yet published. */
export function* discardSegment(
  { allocator, catalog, geometry }: SegmentMaker,
  segment: number,
  { pieces, list }: SegmentPlace,
): Operation<void> {
  const first = geometry.firstPiece(segment);
  for (let i = 0; i < pieces.length; i++) {
    const units = geometry.pieceUnits(first + i);
    if (units > BLOCK_UNITS_MAX) yield* allocator.spans.release(catalog, pieces[i], units);
    else allocator.discard(catalog, units, pieces[i]);
  }
  if (list !== NULL_ADDRESS) allocator.discard(catalog, listUnits(pieces.length), list);
}
