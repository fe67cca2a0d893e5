import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { PairGeometry, rootBytes, segmentBuckets, segmentCount } from './geometry.ts';
import type { HStoreShape } from './parameters.ts';
import { BUCKET_BYTES, NEXT, VALID } from './slot.ts';

/** Buckets that are written at once. */
const BUCKETS_PER_WRITE = 1024;

/** Allocates an empty index: all is zero but the marks that buckets are buckets. */
export function* buildHStore(pool: Pool, shape: HStoreShape, catalog: number): Operation<Address> {
  const root = yield* allocateSpan(pool, catalog, rootBytes(shape));
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

/** Reads where the segments of the tables are. */
export function* loadSegments(
  shape: HStoreShape,
  geometries: readonly PairGeometry[],
): Operation<void> {
  const count = segmentCount(shape);
  const words = new Scratch(8 * count);
  for (const { segmentTable, segments } of geometries) {
    yield new Batch().read(segmentTable, 8 * count, words, 0);
    for (let i = 0; i < count; i++) segments[i] = readInteger(words, 8 * i);
  }
}

function* makeSegment(pool: Pool, shape: HStoreShape, catalog: number): Operation<Address> {
  const buckets = segmentBuckets(shape);
  const segment = yield* allocateSpan(pool, catalog, buckets * BUCKET_BYTES);
  const image = new Scratch(BUCKETS_PER_WRITE * BUCKET_BYTES);
  for (let i = 0; i < BUCKETS_PER_WRITE; i++) writeInteger(image, i * BUCKET_BYTES + NEXT, VALID);
  for (let first = 0; first < buckets; first += BUCKETS_PER_WRITE) {
    const bytes = BUCKET_BYTES * Math.min(BUCKETS_PER_WRITE, buckets - first);
    yield new Batch().write(segment + BUCKET_BYTES * first, bytes, image, 0);
  }
  return segment;
}

function* allocateSpan(pool: Pool, catalog: number, bytes: number): Operation<Address> {
  const span = yield* pool.allocator.allocateSpan(catalog, Math.ceil(bytes / UNIT_BYTES));
  pool.chunks.reserve(span, bytes);
  return span;
}
