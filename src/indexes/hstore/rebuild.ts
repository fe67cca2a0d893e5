import { StepwellError } from '../../errors.ts';
import { isGone } from '../../pool/clients/client-word.ts';
import { KeyHash } from '../../records/hash.ts';
import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, writeInteger } from '../../verbs/index.ts';
import { PAIR, type PairGeometry, pairOf, segmentCount } from './geometry.ts';
import { tryHolding } from './holding.ts';
import { HeadReader } from './key-reader.ts';
import type { Pair } from './pair.ts';
import { Relocation, type SkiplistImage } from './skiplist-image.ts';
import { BUCKET_BYTES, NEXT, signatureOf, slotHigh, slotLow } from './slot.ts';
import { readSkiplistState, readState } from './state.ts';
import { TableImage } from './table-image.ts';
import { loadSegments, sayLost, wholeTable } from './table-state.ts';
import { Waiting } from './waiting.ts';

const OLD_BUCKETS_PER_BATCH = 1024;
/** Slots that are put in their places between two looks at other duties: reads wait for these. */
const SLOTS_BETWEEN_DUTIES = 256;

/**
 * After a bucket of the table of generation `met` was no bucket: returns when this client knows a
 * table that is whole. Who builds it is the skiplist server, which has all that it needs, or else
 * whoever comes first.
 */
export function* restoreTable(pair: Pair, met: number): Operation<void> {
  const { geometry } = pair;
  const waiting = new Waiting(pair.hashLease, pair.patience, 'the hash table is lost');
  for (;;) {
    const { table, holder, progress } = yield* readState(pair);
    if (!table.isLost && table.generation !== met) {
      if (table.generation !== geometry.generation) yield* loadSegments(geometry);
      return;
    }
    if (!table.isLost) yield* sayLost(geometry, met);
    else if (yield* repair(pair, waiting)) return;
    else {
      yield* waiting.turn(holder, progress);
      // A server that waits here for another one may have what that one waits for.
      yield* pair.meanwhile();
    }
  }
}

/** Builds the table anew if that is for this client to do, and can be done now. */
export function* repair(pair: Pair, waiting?: Waiting): Operation<boolean> {
  if (yield* hasOtherSkiplistServer(pair)) return false;
  const done = yield* tryHolding(pair, () => rebuildTable(pair), waiting);
  return done !== undefined;
}

/** Whether another process is the skiplist server: it knows what was in the table. */
export function* hasOtherSkiplistServer(pair: Pair): Operation<boolean> {
  const { client } = (yield* readSkiplistState(pair)).holder;
  if (client === 0 || client === pair.skiplistLease.own) return false;
  return !(yield* isGone(pair.membership, client));
}

/**
 * A new table in the place of a lost one (section 3.2), by the holder of the hash server's lease:
 * nobody writes meanwhile.
 *
 * 1. All slots are put into an image of a table elsewhere: from the skiplist, if this client has it
 *    as of the last committed sequence, without reading a record; else from the records in the pool
 *    that are marked as current.
 * 2. The buckets of the old table lose their marks, as far as they had them, so that whoever knows
 *    the old one only finds that out; their slots stay, for who reads one at this moment.
 * 3. One doorbell WRITEs where the new segments are, then that they are the next generation.
 */
export function* rebuildTable(pair: Pair): Operation<void> {
  const { geometry, skiplistServer } = pair;
  const { table, committed } = yield* readState(pair);
  if (!table.isLost) return yield* loadSegments(geometry);
  const image = new TableImage(pair);
  const { image: known, relocation } = yield* fill(pair, image, table.generation, committed);
  yield* unmarkBuckets(geometry);
  yield* putInPlace(geometry, image, table.generation + 1);
  if (relocation) skiplistServer.relocate(known, relocation, table.generation + 1);
}

/** Writes the image; of the skiplist that it is of, if it is of one, where its nodes' slots are. */
function* fill(pair: Pair, image: TableImage, generation: number, committed: number) {
  const { skiplistServer } = pair;
  try {
    yield* image.allocate();
    const isKnown = yield* skiplistServer.followLog(generation, committed);
    const { image: known } = skiplistServer;
    const relocation = isKnown ? yield* fromSkiplist(pair, known, image) : undefined;
    if (!relocation) yield* fromRecords(pair, image);
    yield* image.write();
    return { image: known, relocation };
  } catch (error) {
    // Else each attempt in a full pool would make it fuller.
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') yield* image.discard();
    throw error;
  }
}

/** Returns where the slot of each node is now. */
function* fromSkiplist(pair: Pair, known: SkiplistImage, image: TableImage): Operation<Relocation> {
  const { nodes } = known;
  const { seed } = pair.geometry.shape;
  const hash = new KeyHash();
  const relocation = new Relocation(known);
  for (let node = 1; node < nodes.end; node++) {
    if (node % SLOTS_BETWEEN_DUTIES === 0) yield* pair.meanwhile();
    if (nodes.slot[node] === 0) continue;
    hash.compute(nodes.keyWords(node), nodes.keyOffset(node) >> 2, nodes.keyBytes(node), seed);
    if (!image.hasRoom(hash.h1)) yield* image.chain(hash.h1);
    relocation.place(node, image.place(hash.h1, nodes.low[node], nodes.high[node]));
  }
  return relocation;
}

function* fromRecords(pair: Pair, image: TableImage): Operation<void> {
  const { geometry, allocator, catalog } = pair;
  const { shape, number } = geometry;
  const hash = new KeyHash();
  const heads = new HeadReader();
  yield* allocator.eachCurrent(catalog, function* (blocks, units) {
    const records = { count: blocks.length, address: (i: number) => blocks[i], units: () => units };
    const crowded: { h1: number; low: number; high: number }[] = [];
    yield* heads.read(records, (i, { i32, at, bytes }, lines) => {
      hash.compute(i32, at >> 2, bytes, shape.seed);
      if (pairOf(shape, hash) !== number) return;
      const low = slotLow(blocks[i]);
      const high = slotHigh(blocks[i], Math.min(lines, SLOT_UNITS_MAX), signatureOf(hash.h2));
      const { h1 } = hash;
      if (image.hasRoom(h1)) image.place(h1, low, high);
      else crowded.push({ h1, low, high });
    });
    for (const { h1, low, high } of crowded) {
      if (!image.hasRoom(h1)) yield* image.chain(h1);
      image.place(h1, low, high);
    }
    yield* pair.meanwhile();
  });
}

function* unmarkBuckets(geometry: PairGeometry): Operation<void> {
  const none = new Scratch(8);
  for (let first = 0; first < geometry.buckets; first += OLD_BUCKETS_PER_BATCH) {
    const batch = new Batch();
    const end = Math.min(first + OLD_BUCKETS_PER_BATCH, geometry.buckets);
    for (let bucket = first; bucket < end; bucket++) {
      batch.write(geometry.bucket(bucket) + NEXT, BUCKET_BYTES - NEXT, none, 0);
    }
    yield batch;
  }
}

function* putInPlace(
  geometry: PairGeometry,
  { segments }: TableImage,
  generation: number,
): Operation<void> {
  const bytes = 8 * segmentCount(geometry.shape);
  const words = new Scratch(bytes + 8);
  segments.forEach((segment, i) => {
    writeInteger(words, 8 * i, segment);
  });
  writeInteger(words, bytes, wholeTable(generation));
  yield new Batch()
    .write(geometry.segmentTable, bytes, words, 0)
    .write(geometry.base + PAIR.table, 8, words, bytes);
  yield* loadSegments(geometry);
}
