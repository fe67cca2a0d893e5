import { StepwellError } from '../../errors.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { control } from '../../pool/control.ts';
import { unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { namesOf } from '../places/destroy-file.ts';
import type { DropReport } from '../reports.ts';

const WAITS_MAX = 100;
const CLOSING_WAITS_MAX = 25;
const WAIT_MICROSECONDS = 2000;
const WAITS_PER_LOOK = 10;

/** A store that nobody opens any more, whose memory is still there. */
export interface DroppedStore {
  entry: CatalogEntry;
  bytes: number;
}

/**
 * Marks the store as dropped. Raises SW_STORE_NOT_FOUND; SW_POOL_BUSY while living clients have it
 * open, unless forced. A client that opens it at that very moment finds out as if it was forced.
 */
export function* markDropped(
  pool: Pool,
  url: string,
  name: string,
  force: boolean,
): Operation<DroppedStore> {
  const entry = yield* pool.catalog.find(name);
  if (entry === undefined) {
    // One that died may have begun it.
    yield* pool.catalog.finishDrop(0);
    throw notFound(url, name);
  }
  let holders = yield* livingHolders(pool, entry.id);
  // One that has closed the store may wait for an epoch until it has let go of it.
  for (let i = 0; holders.length > 0 && !force && i < CLOSING_WAITS_MAX; i++) {
    yield* control.pause(WAIT_MICROSECONDS);
    holders = yield* livingHolders(pool, entry.id);
  }
  if (holders.length > 0 && !force) {
    const why = `is open in ${namesOf(holders).join(', ')}, or was closed there a moment ago`;
    const remedy = 'close it there and try again, or use force (--force)';
    throw new StepwellError('SW_POOL_BUSY', `store ${name} of ${url} ${why}; ${remedy}`);
  }
  const words = yield* pool.chunks.words();
  const chunks = words.filter(([, word]) => unpackChunk(word).catalog === entry.id).length;
  if (!(yield* pool.catalog.drop(entry))) throw notFound(url, name);
  return { entry, bytes: chunks * pool.layout.parameters.chunkBytes };
}

/** Gives the memory back, after a short wait for clients that have it open. */
export function* freeDropped(pool: Pool, { entry, bytes }: DroppedStore): Operation<DropReport> {
  for (let waits = 0; ; waits++) {
    if (yield* pool.catalog.finishDrop(entry.id)) break;
    if (waits === WAITS_MAX) break;
    yield* control.pause(WAIT_MICROSECONDS);
    if (waits % WAITS_PER_LOOK === 0) yield* pool.recovering(() => true);
  }
  const isThere = (yield* pool.catalog.entries()).some(({ id, dropped }) => {
    return dropped && id === entry.id;
  });
  const heldBy = isThere ? namesOf(yield* pool.membership.holdersOf(entry.id)) : [];
  return { store: entry.name, bytes, heldBy };
}

function* livingHolders(pool: Pool, catalog: number): Operation<ClientRow[]> {
  const living: ClientRow[] = [];
  for (const row of yield* pool.membership.holdersOf(catalog)) {
    if (!(yield* pool.membership.isGone(row))) living.push(row);
  }
  return living;
}

function notFound(url: string, name: string): StepwellError {
  return new StepwellError('SW_STORE_NOT_FOUND', `no store ${name} in ${url}`);
}
