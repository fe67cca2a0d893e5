import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { CycleGuard } from '../substrates/cycle-guard.ts';
import { partOf, visitSample } from '../traversal/sample.ts';
import type { Partitions } from './partitions/partitions.ts';
import { LEVEL3_LINK, LEVELS, NODE_BYTES, NODE_LINK } from './table/geometry.ts';
import type { ShardRequest } from './table/request.ts';
import { isLive, pointerOf, stampOf, VERSION_MAX } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

/** The buckets of one number of all levels of a partition, as they stand in the words. */
interface Buckets {
  readonly table: ShardTable;
  readonly at: number;
  readonly version: number;
}

/** `Index.sample`: a place is the buckets of one number of all levels of a partition. */
export function* sampleRecords(
  partitions: Partitions,
  request: ShardRequest,
  places: readonly number[],
  enough: number,
  visit: (request: ShardRequest, keyBytes: number) => void,
): Operation<void> {
  const { geometry, tables } = partitions;
  const bytes = geometry.bucketBytes.reduce((sum, each) => sum + each, 0);
  const { batch, words } = request;
  words.ensure(places.length * bytes);
  batch.clear();
  const read = places.map((place, i): Buckets => {
    const { part, rest } = partOf(place, geometry.shape.partitions);
    const { segments } = tables[part];
    const { part: bucket } = partOf(rest, geometry.bucketsAt(segments.version));
    let at = i * bytes;
    for (let level = 0; level < LEVELS; level++) {
      const address = segments.bucketAddress(level, bucket);
      batch.read(address, geometry.bucketBytes[level], words, at);
      at += geometry.bucketBytes[level];
    }
    return { table: tables[part], at: i * bytes, version: segments.version };
  });
  yield batch;
  const [level1, level2] = geometry.bucketBytes;
  const slotBytes = level1 + level2 + LEVEL3_LINK;
  request.candidateCount = 0;
  for (const { table, at, version } of read) {
    // Resized since this client looked, or migrated: for the next time.
    if (!noteLive(request, words, at, slotBytes, version)) yield* table.load();
    else yield* noteChain(request, linkOf(words, at + slotBytes));
  }
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(tables[0].records, request, picked, visit);
}

/** Notes the records of buckets; false when one of these is at a later version. */
function noteLive(
  request: ShardRequest,
  { i32 }: Scratch,
  start: number,
  bytes: number,
  version: number,
): boolean {
  for (let at = start; at < start + bytes; at += 8) {
    const low = i32[at >> 2];
    const high = i32[(at >> 2) + 1];
    const stamp = stampOf(high);
    if (stamp - 1 > version) return false;
    // Of stamp 0 nothing is a record: a mover has taken the new bucket, and its name stands there.
    if (stamp > 0 && isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
  }
  return true;
}

function linkOf({ i32 }: Scratch, at: number): Address {
  return pointerOf(i32[at >> 2], i32[(at >> 2) + 1]);
}

/** The records of a bucket's overflow chain, which a table that grows in time hardly has. */
function* noteChain(request: ShardRequest, first: Address): Operation<void> {
  const guard = new CycleGuard();
  for (let address = first; address !== NULL_ADDRESS; ) {
    guard.pass(address);
    const words = new Scratch(NODE_BYTES);
    yield new Batch().read(address, NODE_BYTES, words, 0);
    noteLive(request, words, 0, NODE_LINK, VERSION_MAX);
    address = linkOf(words, NODE_LINK);
  }
}
