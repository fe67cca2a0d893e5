import { control } from '../pool/control.ts';
import type { Pool } from '../pool/pool.ts';
import { type Address, Batch, type Operation } from '../verbs/index.ts';
import type { Index } from './contract.ts';

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
export function* sweep(pool: Pool, index: Index): Operation<number> {
  const { allocator, reclamation } = pool;
  const { catalog } = index;
  // First, because it tells whether this client was declared dead while it was idle: what such a
  // client adopts has an owner that nobody cleans up after a second time.
  yield* reclamation.quiesce();
  yield* allocator.adoptOrphans(catalog);
  const lost = yield* allocator.claimed(catalog, reclamation.waiting());
  yield* index.eachReachable((address) => lost.delete(address));
  const epoch = yield* reclamation.readEpoch();
  yield* reclamation.goOffline();
  let swept = 0;
  if (lost.size > 0 && (yield* outwaitOthers(pool, epoch))) {
    swept = yield* freeClaimed(pool, catalog, lost);
  }
  yield* allocator.surrenderCaches(catalog);
  return swept + (yield* allocator.releaseEmpty(catalog));
}

/** What others freed meanwhile is free already, not lost. */
function* freeClaimed(
  { allocator, reclamation }: Pool,
  catalog: number,
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

function* outwaitOthers(pool: Pool, epoch: number): Operation<boolean> {
  for (let waits = 0; waits < WAITS_MAX; waits++) {
    yield* pool.reclamation.collect();
    yield* pool.reclamation.advanceBeyond(epoch);
    if (yield* pool.reclamation.drainedUpTo(epoch)) return true;
    yield* control.pause(WAIT_MICROSECONDS);
  }
  return false;
}
