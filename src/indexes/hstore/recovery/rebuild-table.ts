import { hasCode } from '../../../errors.ts';
import { isGone } from '../../../pool/clients/client-word.ts';
import { KeyHash } from '../../../records/hash.ts';
import { SLOT_UNITS_MAX } from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
} from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import { generationAfter, type PairGeometry, pairOf } from '../protocol/geometry.ts';
import { loadSegments, readState, reportLost, withdrawReport } from '../protocol/pair-state.ts';
import { readHeads } from '../protocol/record-heads.ts';
import { BUCKET_BYTES, markIn, NEXT, nextIn, signatureOf, slotWord } from '../protocol/slot.ts';
import type { Waiting } from '../protocol/waiting.ts';
import type { Word } from '../protocol/word.ts';
import type { SkiplistImage } from '../skiplist-server/skiplist-image.ts';
import { SlotMap } from '../skiplist-server/slot-map.ts';
import { inTwoParts, tryHolding } from './hold-lease.ts';
import { TableImage } from './table-image.ts';

const OLD_BUCKETS_PER_BATCH = 1024;
/** Slots to place between two rounds of other duties. It is small because reads wait for those. */
const SLOTS_BETWEEN_DUTIES = 256;

/**
 * To be called after reading an invalid bucket in the table of generation `met`. Returns when this
 * client has loaded an intact table. The skiplist server rebuilds the table, because it knows every
 * slot; if there is no skiplist server, the first client does.
 */
export function* restoreTable(pair: Pair, met: number): Operation<void> {
  const { geometry } = pair;
  yield* pair.waitFor('hash', 'the hash table is lost', function* ({ table }, waiting) {
    if (!table.isLost && table.generation !== met) {
      if (table.generation !== geometry.generation) yield* loadSegments(geometry);
      return true;
    }
    if (!table.isLost) yield* reportLost(geometry, met);
    if (yield* repair(pair, waiting)) return true;
    // The server that rebuilds the table may wait for a lease that this one holds: release it.
    yield* pair.meanwhile();
  });
}

/** Rebuilds the table if no other client should and the lease is available now. */
export function* repair(pair: Pair, waiting?: Waiting): Operation<boolean> {
  if (yield* hasOtherSkiplistServer(pair)) return false;
  const done = yield* tryHolding(pair, () => rebuildTable(pair), waiting);
  return done !== undefined;
}

/** Whether another living client is the skiplist server, which knows what was in the table. */
export function* hasOtherSkiplistServer(pair: Pair): Operation<boolean> {
  const { holder } = (yield* readState(pair)).skiplist;
  if (!pair.skiplistLease.isTaken(holder)) return false;
  return !(yield* isGone(pair.pool.membership, holder.client));
}

/**
 * Replaces a lost table by a new one (section 3.2). The holder of the hash server's lease runs it,
 * so no client writes meanwhile.
 *
 * 1. Build the new table in private memory and write it to new segments. If this client's skiplist
 *    is as of the last committed sequence, its slots suffice and no record is read; else they come
 *    from the records in the pool that are marked as current.
 * 2. Clear the marks of the old table's buckets, so that a client that knows only the old table
 *    notices. The slots stay, for clients that are reading one now.
 * 3. One doorbell WRITEs where the new segments are, and then the next generation.
 *
 * After a crash in between the table is still lost, and the next client rebuilds it. The memory of
 * the old table is never used again.
 */
function* rebuildTable(pair: Pair): Operation<void> {
  const { geometry, skiplist } = pair;
  const { table, committed } = yield* readState(pair);
  if (!table.isLost) return yield* loadSegments(geometry);
  const next = generationAfter(table.generation, false);
  const image = new TableImage(pair, next);
  let known: SkiplistImage | undefined;
  try {
    yield* image.allocate();
    if (yield* skiplist.followLog(table.generation, committed)) known = skiplist.image;
    if (known) yield* fromSkiplist(pair, known, image);
    else yield* fromRecords(pair, image);
    yield* image.write();
  } catch (error) {
    // Otherwise each attempt in a full pool would take more of its memory.
    if (hasCode(error, 'SW_POOL_FULL')) yield* image.discard();
    throw error;
  }
  yield* unmarkBuckets(geometry);
  yield* image.publish();
  // Unless an interleaved operation has already built a skiplist of the new table.
  if (skiplist.image === known) skiplist.generation = next;
}

/**
 * Doubles the table of generation `met`, from the records. GETs go on while the new table is built;
 * writes wait. A client that is stopped while it builds is overtaken, and gives its table up. If it
 * dies while it publishes, the table is lost, and the next client rebuilds it at its old size. In a
 * full pool the chains get longer instead.
 */
export function* growTable(pair: Pair, met: number): Operation<void> {
  const { geometry } = pair;
  const image = new TableImage(pair, generationAfter(met, true));
  let isNeeded = false;
  let isPublished = false;
  const build = function* (): Operation<void> {
    const { table } = yield* readState(pair);
    isNeeded = table.generation === met && geometry.generation === met && !table.isLost;
    if (!isNeeded) return;
    yield* image.allocate();
    yield* fromRecords(pair, image);
    yield* image.write();
  };
  const publish = function* (isUnchanged: () => Operation<boolean>): Operation<void> {
    // No turn begins on a table that is reported as lost. If it was already, others rebuild it.
    if (!isNeeded || !(yield* reportLost(geometry, met))) return;
    if (geometry.generation !== met || !(yield* isUnchanged())) {
      yield* withdrawReport(geometry, met);
      return;
    }
    // What follows cannot be taken back.
    isPublished = true;
    yield* unmarkBuckets(geometry);
    yield* image.publish();
    pair.grown++;
  };
  try {
    yield* inTwoParts(pair, 'the hash table is to grow', build, publish);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    pair.noteFull();
  } finally {
    if (!isPublished) yield* image.discard();
  }
}

/**
 * Nodes get their new slots before the table is published. If it never is, nothing needs the old
 * slots: a lost table commits no change, and the next attempt places all nodes again.
 */
function* fromSkiplist(pair: Pair, known: SkiplistImage, image: TableImage): Operation<void> {
  const { nodes } = known;
  const { seed } = pair.geometry.shape;
  const hash = new KeyHash();
  const bySlot = new SlotMap(nodes, known.bySlot.size);
  for (let node = 1; node < nodes.end; node++) {
    if (node % SLOTS_BETWEEN_DUTIES === 0) yield* pair.meanwhile();
    if (nodes.slot[node] === 0) continue;
    const { i32, at, bytes } = nodes.keyOf(node);
    hash.compute(i32, at >> 2, bytes, seed);
    const slot = yield* image.put(hash.h1, nodes.low[node], nodes.high[node]);
    nodes.slot[node] = slot;
    bySlot.add(node);
  }
  known.bySlot = bySlot;
}

function* fromRecords(pair: Pair, image: TableImage): Operation<void> {
  const { geometry, pool, catalog } = pair;
  const { shape, number } = geometry;
  const hash = new KeyHash();
  yield* pool.allocator.eachCurrent(catalog, function* (blocks, units) {
    const records = blocks.map((block) => slotWord(block, Math.min(units, SLOT_UNITS_MAX), 0));
    const own: { h1: number; word: Word }[] = [];
    yield* readHeads(records, (i, { i32, at, bytes }, lines) => {
      hash.compute(i32, at >> 2, bytes, shape.seed);
      if (pairOf(shape, hash) !== number) return;
      const { h1, h2 } = hash;
      own.push({ h1, word: slotWord(blocks[i], Math.min(lines, SLOT_UNITS_MAX), signatureOf(h2)) });
    });
    for (const { h1, word } of own) yield* image.put(h1, word.low, word.high);
    yield* pair.meanwhile();
  });
}

/**
 * Clears the marks of all buckets, chained ones too: a near read proves a record by the mark of the
 * bucket that names it. Begins at the end of each chain, so that after a crash the buckets that are
 * still marked lead to the rest.
 */
function* unmarkBuckets(geometry: PairGeometry): Operation<void> {
  const { buckets } = geometry;
  const none = new Scratch(8);
  for (let first = 0; first < buckets; first += OLD_BUCKETS_PER_BATCH) {
    const marked: Address[] = [];
    const end = Math.min(first + OLD_BUCKETS_PER_BATCH, buckets);
    for (let bucket = first; bucket < end; bucket++) marked.push(geometry.bucket(bucket));
    let open = marked;
    while (open.length > 0) {
      open = yield* bucketsBehind(geometry, open);
      marked.push(...open);
    }
    const batch = new Batch();
    for (const bucket of marked.reverse()) batch.write(bucket + NEXT, 8, none, 0);
    yield batch;
  }
}

function* bucketsBehind({ mark }: PairGeometry, buckets: Address[]): Operation<Address[]> {
  const words = new Scratch(BUCKET_BYTES * buckets.length);
  const batch = new Batch();
  for (const [i, bucket] of buckets.entries()) {
    batch.read(bucket + NEXT, 8, words, BUCKET_BYTES * i + NEXT);
  }
  yield batch;
  return buckets.flatMap((_, i) => {
    const at = BUCKET_BYTES * i;
    const next = markIn(words, at) === mark ? nextIn(words, at) : NULL_ADDRESS;
    return next === NULL_ADDRESS ? [] : [next];
  });
}
