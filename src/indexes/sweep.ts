import { HELD, INHERITED } from '../pool/clients/holder-word.ts';
import { EPOCHS_TO_RIPEN } from '../pool/clients/limbo.ts';
import type { ClientRow } from '../pool/clients/membership.ts';
import { control } from '../pool/control.ts';
import { takeEmptied } from '../pool/memory/emptied-chunks.ts';
import type { Pool } from '../pool/pool.ts';
import { type Address, Batch, type Operation } from '../verbs/index.ts';
import type { Index } from './contract.ts';

const WAITS_MAX = 100;
const WAIT_MICROSECONDS = 2000;
/** While it waits, a sweep looks so often whether those that it waits for are still there. */
const WAITS_PER_LOOK = 8;
/** A sweep takes milliseconds a hundred megabytes; a client that waits longer sweeps as well. */
const TURN_WAITS_MAX = 500;
/** Each further round means that a client has died since the last one. */
const ROUNDS_MAX = 8;

/**
 * Brings back blocks that dead clients lost: claimed ahead, or retired and never freed. Only in
 * this client's own chunks (those of the dead are adopted first), where no other client allocates,
 * so a block that no key reaches stays unreachable. It may still be in a living client's limbo,
 * which will free it; therefore the sweep waits until everything unlinked before its walk ended has
 * been freed.
 *
 * Runs between operations, when the pool is full; chunks without a block in use become free for any
 * block size, the other adopted ones are left to clients that want such blocks. When there is
 * nothing of the kind, chunks come back of stores whose makers died, and empty ones of any client.
 * Returns how many blocks and chunks it brought back, or 1 when another client has just swept.
 *
 * While a client sweeps it owns all that could be swept, so others that find the pool full wait for
 * it instead of failing, and one that dies as it sweeps leaves orphans to the next. Its name in the
 * superblock is for that alone: two sweeps at once do no harm.
 */
export function* sweep(pool: Pool, index: Index, forDeletion = true): Operation<number> {
  // First, because it tells whether this client was declared dead while it was idle: what such a
  // client adopts has an owner that no client cleans up after a second time.
  yield* pool.reclamation.quiesce();
  const turn = yield* takeTurn(pool);
  if (turn === MISSED) return 1;
  try {
    // Once more, and not in each round: this client has been idle while it waited for its turn, and
    // at the end of each round it is idle again, so that the sweeps of others need not wait for it.
    yield* pool.reclamation.quiesce();
    const { swept, outwaited } = yield* sweepOrphans(pool, index, turn === NAMED, forDeletion);
    if (swept > 0) return swept;
    const released = yield* pool.catalog.releaseUnfinished();
    // Only one client at a time may ask for chunks. A client that stands still makes all wait: the
    // sweep has waited for it already.
    if (released > 0 || turn !== NAMED || !outwaited) return released;
    return yield* takeEmptied(pool, () => outwaitReaders(pool));
  } finally {
    if (turn === NAMED) yield* pool.sweeper.leave();
  }
}

/** How a client comes to sweep, or not: another one has just done so. */
const NAMED = 0;
const UNNAMED = 1;
const MISSED = 2;

/** Waits for the client that sweeps, if there is one and it lives. */
function* takeTurn(pool: Pool): Operation<number> {
  for (let waits = 0; waits < TURN_WAITS_MAX; waits++) {
    const taken = yield* pool.sweeper.take();
    if (taken === INHERITED || (taken !== HELD && waits === 0)) return NAMED;
    if (taken !== HELD) {
      yield* pool.sweeper.leave();
      return MISSED;
    }
    // The other one waits for this one to let go of what it retired.
    yield* pool.reclamation.goOffline();
    yield* pool.reclamation.collect();
    yield* control.pause(WAIT_MICROSECONDS);
  }
  return UNNAMED;
}

/**
 * Adopts orphans and sweeps, once more when it was in vain and a client has died meanwhile: another
 * sweeper perhaps, which owned them all.
 */
function* sweepOrphans(
  pool: Pool,
  index: Index,
  compacts: boolean,
  forDeletion: boolean,
): Operation<{ swept: number; outwaited: boolean }> {
  const adopted = new Set<number>();
  let swept = 0;
  let outwaited = true;
  try {
    for (let round = 0; round < ROUNDS_MAX && swept === 0; round++) {
      yield* pool.recovering(() => true);
      const unswept = yield* pool.catalog.unswept(index.catalog);
      const rows = yield* pool.membership.rows(true);
      const orphans = yield* pool.allocator.adoptOrphans(index.catalog);
      if (round > 0 && orphans.length === 0) break;
      for (const chunk of orphans) adopted.add(chunk);
      // A client that sweeps beside another must not: compactions share the index's spare place.
      if (round === 0 && compacts) swept += yield* compact(pool, index, forDeletion);
      const own = yield* sweepOwn(pool, index);
      swept += own.brought;
      outwaited = own.outwaited;
      // Alone, this client owned every chunk of the store: nothing of the dead can be elsewhere.
      const isComplete = own.outwaited && isAlone(pool, rows, yield* pool.membership.rows(true));
      if (isComplete) yield* pool.catalog.addUnswept(index.catalog, -unswept);
    }
  } finally {
    // Also of a sweep that fails: others wait for what this client has adopted and retired.
    yield* pool.reclamation.goOffline();
    yield* pool.allocator.surrenderCaches(index.catalog);
    yield* pool.allocator.disown(index.catalog, adopted);
  }
  return { swept, outwaited };
}

/** Whether the pool had no other client between two looks at the rows: a join changes a row. */
function isAlone({ membership }: Pool, before: ClientRow[], after: ClientRow[]): boolean {
  return after.every(
    ({ id, word, isFree }, i) => word === before[i].word && (isFree || id === membership.id),
  );
}

/**
 * Brings back what no client reaches or holds in this client's own chunks. `outwaited` tells
 * whether nothing of the kind is left there.
 */
function* sweepOwn(pool: Pool, index: Index): Operation<{ brought: number; outwaited: boolean }> {
  const { allocator, reclamation } = pool;
  const { catalog } = index;
  yield* reclamation.quiesce();
  const lost = yield* allocator.claimed(catalog, reclamation.waiting());
  yield* index.eachReachable((address) => lost.delete(address));
  const bound = yield* pool.catalog.boundOf(catalog);
  if (bound) lost.delete(bound.block);
  const epoch = yield* reclamation.readEpoch();
  yield* reclamation.goOffline();
  const waits = lost.size > 0 || reclamation.retired > 0;
  const outwaited = !waits || (yield* outwaitOthers(pool, epoch));
  const freed = waits && outwaited ? yield* freeClaimed(pool, catalog, lost) : 0;
  yield* allocator.surrenderCaches(catalog);
  return { brought: freed + (yield* allocator.releaseEmpty(catalog)), outwaited };
}

/** Returns how many parts of the index it has changed. */
function* compact(pool: Pool, index: Index, forDeletion: boolean): Operation<number> {
  if (index.compact === undefined) return 0;
  yield* pool.reclamation.quiesce();
  return yield* index.compact(() => outwaitReaders(pool), forDeletion);
}

/**
 * Waits, idle, until no client holds an address that was unlinked before, and announces an epoch
 * again. False when a living client has not let go in all that time.
 */
function* outwaitReaders(pool: Pool): Operation<boolean> {
  const { reclamation } = pool;
  yield* reclamation.goOffline();
  // As what is retired now ripens: see Limbo.
  const ripe = (yield* reclamation.readEpoch()) + EPOCHS_TO_RIPEN;
  let epoch = 0;
  for (let waits = 0; waits < WAITS_MAX && epoch < ripe; ) {
    const before = epoch;
    yield* reclamation.advanceBeyond(ripe - 1);
    epoch = yield* reclamation.readEpoch();
    if (epoch > before) continue;
    if (waits % WAITS_PER_LOOK === 0) yield* pool.recovering(() => true);
    yield* control.pause(WAIT_MICROSECONDS);
    waits++;
  }
  yield* reclamation.collect();
  yield* reclamation.quiesce();
  return epoch >= ripe;
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

/** False when a living client has not let go in all that time. */
function* outwaitOthers(pool: Pool, epoch: number): Operation<boolean> {
  for (let waits = 0; waits < WAITS_MAX; waits++) {
    yield* pool.reclamation.collect();
    yield* pool.reclamation.advanceBeyond(epoch);
    if (yield* pool.reclamation.drainedUpTo(epoch)) return true;
    // Those that die now have not left, and never will by themselves.
    if (waits % WAITS_PER_LOOK === 0) yield* pool.recovering(() => true);
    yield* control.pause(WAIT_MICROSECONDS);
  }
  return false;
}
