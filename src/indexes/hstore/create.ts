import type { Allocator } from '../../pool/memory/allocator.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  type Operation,
  Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { PairGeometry, rootBytes, segmentBuckets, segmentCount } from './protocol/geometry.ts';
import type { HStoreShape } from './protocol/parameters.ts';
import { BUCKET_BYTES, NEXT, VALID } from './protocol/slot.ts';

/** Buckets that are written at once. */
const BUCKETS_PER_WRITE = 1024;

/** Allocates an empty index: all is zero but the marks that buckets are buckets. */
export function* buildHStore(pool: Pool, shape: HStoreShape, catalog: number): Operation<Address> {
  const root = yield* allocateSpan(pool.allocator, catalog, rootBytes(shape));
  for (let number = 0; number < shape.pairs; number++) {
    const segments = new Scratch(8 * segmentCount(shape));
    for (let i = 0; i < segmentCount(shape); i++) {
      writeInteger(segments, 8 * i, yield* makeSegment(pool, shape, catalog));
    }
    const { segmentTable } = new PairGeometry(shape, root, number);
    yield new Batch().write(segmentTable, 8 * segmentCount(shape), segments, 0);
  }
  return root;
}

/** A segment of the table with empty buckets. */
function* makeSegment(pool: Pool, shape: HStoreShape, catalog: number): Operation<Address> {
  const buckets = segmentBuckets(shape);
  const segment = yield* takeSegment(pool.allocator, shape, catalog);
  const image = new Scratch(BUCKETS_PER_WRITE * BUCKET_BYTES);
  for (let i = 0; i < BUCKETS_PER_WRITE; i++) writeInteger(image, i * BUCKET_BYTES + NEXT, VALID);
  for (let first = 0; first < buckets; first += BUCKETS_PER_WRITE) {
    const bytes = BUCKET_BYTES * Math.min(BUCKETS_PER_WRITE, buckets - first);
    yield new Batch().write(segment + BUCKET_BYTES * first, bytes, image, 0);
  }
  return segment;
}

/** Memory for a segment, as it comes. */
export function takeSegment(
  allocator: Allocator,
  shape: HStoreShape,
  catalog: number,
): Operation<Address> {
  return allocateSpan(allocator, catalog, segmentBuckets(shape) * BUCKET_BYTES);
}

function allocateSpan(allocator: Allocator, catalog: number, bytes: number): Operation<Address> {
  return allocator.spans.allocate(catalog, Math.ceil(bytes / UNIT_BYTES));
}
