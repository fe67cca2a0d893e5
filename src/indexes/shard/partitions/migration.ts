import { StepwellError } from '../../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../../pool/layout.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import type { NodePlacement, NodeShare } from '../../contract.ts';
import { bringTo } from '../resizing/catch-up.ts';
import { learnRelocations } from '../resizing/new-bucket.ts';
import { LEVELS } from '../table/geometry.ts';
import { discardSegment, makeSegment, type SegmentPlace } from '../table/pieces.ts';
import { ROOT_UNITS, type RootName, Segments } from '../table/segments.ts';
import type { ShardTable } from '../table/table.ts';
import type { Partitions } from './partitions.ts';
import { Placement } from './placement.ts';

/** Buckets to check in one doorbell, and to move within one operation. */
const BUCKETS_AT_ONCE = 32;
/** Attempts on a table that other clients keep resizing or migrating. */
const ROUNDS_MAX = 10_000;

/**
 * Moves one partition's table to the memory node that the placement names, while other clients use
 * it. It is a resize (section 3.3) in which every bucket leaves for a new one:
 *
 *   1  makes segments of the same sizes and a root on the new node; no client knows of them
 *   2  one CAS in the old root, where the next segment's address would be: the table has left
 *      A client that meets a bucket from then on fetches it (catch-up.ts), as after a resize
 *   3  this client fetches the others, in order
 *   4  the directory names the new root
 *   5  the migration is counted: at its next quiescent point each client looks the root up again
 *   6  the new root drops the old one, whose segments are retired
 *
 * All progress is in the pool. If the client dies, the next client that migrates the table goes on.
 * Segments of a client that died before 2 are lost until the next resizer or a sweep finds them.
 * After 2 any client does 3 to 6, which do no harm when done twice. The old segments stay reachable
 * for a sweep until 6, which is after 5: so no client frees segments that others still use.
 */
class Migration {
  readonly #partitions: Partitions;
  readonly #table: ShardTable;
  /** Next bucket to fetch, in the segments of `#root`. */
  #root: RootName = 0;
  #level = 0;
  #bucket = 0;
  #rounds = 0;
  /** Whether the table is on its node. */
  done = false;
  /** Whether anything had to be moved, and the memory node that the table belongs on. */
  moved = false;
  node = 0;

  constructor(partitions: Partitions, partition: number) {
    this.#partitions = partitions;
    this.#table = partitions.tables[partition];
  }

  /**
   * Does the next part of the migration. The caller may pause between parts. Raises SW_POOL_FULL if
   * the node has no room, SW_CONTENTION if other clients change the table too often.
   */
  *next(): Operation<void> {
    const table = this.#table;
    const { nodes, roots } = yield* this.#partitions.directory.read();
    yield* table.reload(roots[table.partition]);
    const { segments } = table;
    this.node = new Placement(nodes, roots.length).nodeOf(table.partition);
    // A copy, because another operation of this client may finish the migration meanwhile.
    const { formerRoot } = segments;
    if (formerRoot !== NULL_ADDRESS) {
      this.moved = true;
      const isDone = yield* this.#fetchSome(segments);
      if (isDone) yield* finish(this.#partitions, table, segments, formerRoot);
    } else if (isOn(table, segments, this.node)) this.done = true;
    else if (this.#rounds++ < ROUNDS_MAX) yield* leave(table, segments, this.node);
    else {
      const why = `other clients changed partition ${table.partition} ${ROUNDS_MAX} times`;
      throw new StepwellError('SW_CONTENTION', why);
    }
  }

  /** Step 3; true when all buckets are fetched. Without `former` they are known to be. */
  *#fetchSome(segments: Segments): Operation<boolean> {
    if (segments.former === undefined) return true;
    if (this.#root !== segments.name) {
      this.#root = segments.name;
      this.#level = 0;
      this.#bucket = 0;
    }
    // All are fetched, but an earlier `finish` failed, because of the network.
    if (this.#level === LEVELS) return true;
    const { geometry } = this.#table;
    const all = geometry.bucketsAt(segments.fetchedAt);
    const count = Math.min(BUCKETS_AT_ONCE, all - this.#bucket);
    const words = new Scratch(8 * count);
    const batch = new Batch();
    // A first word of 0: not fetched, or its fetcher has died, because the first word is set last.
    for (let i = 0; i < count; i++) {
      batch.read(segments.bucketAddress(this.#level, this.#bucket + i), 8, words, 8 * i);
    }
    yield batch;
    for (let i = 0; i < count; i++) {
      if (words.i64[i] !== 0n) continue;
      const { fetchedAt } = segments;
      yield* bringTo(this.#table, this.#level, this.#bucket + i, fetchedAt, undefined, segments);
    }
    this.#bucket += count;
    if (this.#bucket === all) {
      this.#bucket = 0;
      this.#level++;
    }
    return this.#level === LEVELS;
  }
}

/** Whether all segments are on `node`. Some are elsewhere if it was full. */
function isOn({ pool }: ShardTable, { addresses }: Segments, node: number): boolean {
  return addresses.every((address) => pool.layout.nodeOf(address) === node);
}

/** Steps 1 and 2. Does nothing if the table was resized or has left meanwhile. */
function* leave(table: ShardTable, segments: Segments, node: number): Operation<void> {
  const { allocator, catalog } = table;
  const made: SegmentPlace[] = [];
  let root: Address = NULL_ADDRESS;
  const discard = function* () {
    for (const [i, place] of made.entries()) yield* discardSegment(table, i, place);
    if (root !== NULL_ADDRESS) allocator.discard(catalog, ROOT_UNITS, root);
  };
  try {
    root = yield* allocator.allocate(catalog, ROOT_UNITS, node);
    while (made.length <= segments.version) {
      made.push(yield* makeSegment(table, made.length, node));
    }
  } catch (error) {
    yield* discard();
    throw error;
  }
  yield* Segments.formatFor(root, segments.root, made, table.reported);
  if (!(yield* segments.leaveFor(root, made.length))) yield* discard();
}

/** Steps 4 to 6. */
function* finish(
  partitions: Partitions,
  table: ShardTable,
  segments: Segments,
  formerRoot: Address,
): Operation<void> {
  const { catalog, pool } = table;
  const former = segments.former ?? new Segments(formerRoot, table.geometry);
  // The new root still named its former one when this operation began, so that is not reused.
  if (segments.former === undefined) yield* former.load();
  const spans = yield* takeOverSpans(table, former);
  yield* partitions.directory.replaceRoot(table.partition, formerRoot, segments.name);
  yield* pool.reclamation.countMigration();
  yield* learnRelocations(table, former);
  if (yield* segments.forgetFormer(formerRoot)) retireBlocks(partitions, table, former);
  // Even if another client was faster: only this client can free the spans that it took over.
  pool.reclamation.retireSpan(spans, catalog);
}

function* takeOverSpans(table: ShardTable, former: Segments): Operation<number[]> {
  const { allocator, catalog } = table;
  const chunks: number[] = [];
  for (const { address, units } of former.blocks()) {
    if (units <= BLOCK_UNITS_MAX) continue;
    chunks.push(...(yield* allocator.spans.takeOver(catalog, address, units)));
  }
  return chunks;
}

function retireBlocks(partitions: Partitions, table: ShardTable, former: Segments): void {
  const { catalog, geometry, pool } = table;
  for (const { address, units } of former.blocks()) {
    if (units <= BLOCK_UNITS_MAX) pool.reclamation.retire(address, units, catalog);
  }
  for (const { address, level } of former.relocations()) {
    pool.reclamation.retire(address, geometry.relocatedUnits(level), catalog);
  }
  if (partitions.directory.isInDirectory(former.root)) return;
  pool.reclamation.retire(former.root, ROOT_UNITS, catalog);
}

/** Each partition's table is a part of the index. */
export function placementOf(partitions: Partitions): NodePlacement {
  return {
    shares: () => sharesOf(partitions),
    changeNodes: (change) => partitions.directory.changeNodes(change),
    rebalancing: () => partitions.tables.map((_, i) => new Migration(partitions, i)),
  };
}

/** Each memory node's share of the tables. A table under migration counts at its new node. */
function* sharesOf({ pool, tables, directory }: Partitions): Operation<NodeShare[]> {
  const { nodes, roots } = yield* directory.read();
  const shares = Array.from({ length: pool.layout.stripe }, (_, node) => ({
    node,
    placed: nodes.includes(node),
    parts: 0,
    bytes: 0,
  }));
  for (const table of tables) {
    yield* table.reload(roots[table.partition]);
    shares[table.node].parts++;
    for (const { address, units } of table.segments.blocks()) {
      shares[pool.layout.nodeOf(address)].bytes += units * UNIT_BYTES;
    }
  }
  return shares;
}
