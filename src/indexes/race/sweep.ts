import { control } from '../../pool/control.ts';
import type { Pool } from '../../pool/pool.ts';
import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { type Address, Batch, type Operation } from '../../verbs/index.ts';
import type { RaceTable } from './table.ts';
import { RaceWalk, WALK_START } from './walk.ts';

const WAITS_MAX = 100;
const WAIT_MICROSECONDS = 2000;

/**
 * Brings back blocks that dead clients lost: claimed ahead, or retired and never freed. Only in
 * this client's own chunks (those of the dead are adopted first), where nobody else allocates, so a
 * block that no key reaches stays unreachable. It may still be in a living client's limbo, which
 * will free it; therefore the sweep waits until everything unlinked before its walk ended has been
 * freed.
 *
 * Runs between operations, when the pool is full; chunks without a block in use become free for any
 * block size. Returns how many blocks and chunks it brought back.
 */
export function* sweep(pool: Pool, table: RaceTable): Operation<number> {
  const { allocator, reclamation } = pool;
  yield* allocator.adoptOrphans(table.catalog);
  yield* reclamation.quiesce();
  const lost = yield* allocator.claimed(table.catalog, reclamation.waiting());
  yield* unmarkReachable(table, lost);
  const epoch = yield* reclamation.readEpoch();
  yield* reclamation.goOffline();
  let swept = 0;
  if (lost.size > 0 && (yield* outwaitOthers(pool, epoch))) {
    swept = yield* freeClaimed(pool, table, lost);
  }
  yield* allocator.surrenderCaches(table.catalog);
  return swept + (yield* allocator.releaseEmpty(table.catalog));
}

/** What others freed meanwhile is free already, not lost. */
function* freeClaimed(
  { allocator, reclamation }: Pool,
  { catalog }: RaceTable,
  lost: ReadonlyMap<Address, number>,
): Operation<number> {
  const claimed = yield* allocator.claimed(catalog, reclamation.waiting());
  const batch = new Batch();
  let freed = 0;
  for (const [address, units] of lost) {
    if (!claimed.has(address)) continue;
    allocator.free(address, units, catalog, batch);
    freed++;
  }
  if (batch.length > 0) yield batch;
  return freed;
}

/** A walk meets every record that is present from its beginning to its end. */
function* unmarkReachable(table: RaceTable, lost: Map<Address, number>): Operation<void> {
  const request = table.newRequest();
  const walk = new RaceWalk(table, request, { ...WALK_START });
  while (walk.position !== undefined) {
    const long: Address[] = [];
    yield* walk.nextSlots((record, units) => {
      lost.delete(record);
      if (units === SLOT_UNITS_MAX) long.push(record);
    });
    for (const record of long) {
      yield* table.records.adopt(request, record, SLOT_UNITS_MAX, table.geometry.shape.seed);
      const blocks = yield* table.records.foundBlocks(request, record);
      for (const { address } of blocks) lost.delete(address);
    }
  }
  // Read anew: a splitter may have died right after it had published a child that nobody met yet.
  yield* table.directory.load();
  for (const subtable of table.directory.subtables()) lost.delete(subtable);
}

function* outwaitOthers(pool: Pool, epoch: number): Operation<boolean> {
  for (let waits = 0; waits < WAITS_MAX; waits++) {
    yield* pool.reclamation.collect();
    yield* pool.reclamation.advanceBeyond(epoch);
    if (yield* pool.reclamation.drainedUpTo(epoch)) return true;
    yield* control.pause(WAIT_MICROSECONDS);
  }
  return false;
}
