import type { Pool } from '../../pool/pool.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { Directory } from '../substrates/directory.ts';
import { SepHashGeometry, type SepHashShape } from './geometry.ts';
import { FIRST_EPOCH, HEADER_BYTES, HEADER_UNITS, writeHeader } from './segments/header.ts';
import { writeMain } from './segments/main-segment.ts';

/** Allocates and fills an empty index; returns its root for the catalog. */
export function* buildSepHash(
  pool: Pool,
  shape: SepHashShape,
  catalog: number,
): Operation<Address> {
  const geometry = new SepHashGeometry(shape);
  const headers: Address[] = [];
  for (let suffix = 0; suffix < 2 ** shape.initialDepth; suffix++) {
    headers.push(yield* buildSegment(pool, geometry, catalog, suffix));
  }
  return yield* Directory.build(pool, catalog, shape, headers, { spareBytes: geometry.spareBytes });
}

/** An empty segment: its header, the entries of its CurSegment, and a MainSegment of nothing. */
function* buildSegment(
  { allocator }: Pool,
  geometry: SepHashGeometry,
  catalog: number,
  suffix: number,
): Operation<Address> {
  const { shape, slotsBytes, slotsUnits } = geometry;
  const header = yield* allocator.allocate(catalog, HEADER_UNITS);
  const slots = yield* allocator.allocate(catalog, slotsUnits);
  const units = geometry.mainUnits(0, 0);
  const main = yield* allocator.allocate(catalog, units);
  const mainImage = new Scratch(4096);
  const nothing = new Int32Array(0);
  const fields = { suffix, depth: shape.initialDepth, slots, sibling: 0, units, home: 0 };
  const bytes = writeMain(mainImage, fields, nothing, nothing);
  const headerImage = new Scratch(HEADER_BYTES);
  writeHeader(headerImage, main, shape.initialDepth, FIRST_EPOCH);
  yield new Batch()
    .write(main, bytes, mainImage, 0)
    .write(slots, slotsBytes, new Scratch(slotsBytes), 0)
    .write(header, HEADER_BYTES, headerImage, 0);
  return header;
}
