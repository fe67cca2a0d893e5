import type { Index, IndexWalk } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { walkOf } from '../../indexes/traversal/walk.ts';
import { blockBytesOf } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { BoundedStore } from './bounded-store.ts';
import type { Ledger, Reading } from './ledger.ts';

/** Steps of the walk between entering an epoch section and leaving it. */
const STEPS = 64;
/** The next recount waits this many times as long as the last one took. */
const PAUSES = 20;
/** A recount is reliable if the ledger's sum changed by at most 1 / UNSURE_PARTS during it. */
const UNSURE_PARTS = 128;

/**
 * Counts the records of a bounded store by a walk, and corrects the ledger's sum. A client that was
 * killed, or lost its connections, has not published its last changes. Without a recount the sum
 * would stay wrong: a store without eviction would refuse keys for ever, and a store with eviction
 * would evict records needlessly or exceed its bound.
 *
 * The correction is one word. The CAS that changes it expects the value from before the walk, so if
 * several clients count at once, only one of them corrects. Other clients write during the walk.
 * The walk's count is therefore compared with the mean of the sums before and after it, and a
 * difference that the change between them explains is ignored.
 */
export class Recount {
  readonly #store: BoundedStore;
  readonly #index: Index;
  readonly #attachment: Attachment;

  constructor(store: BoundedStore, index: Index, attachment: Attachment) {
    this.#store = store;
    this.#index = index;
    this.#attachment = attachment;
  }

  /** Recounts, unless the last recount was recent and no client has died since. */
  *ifDue(): Operation<void> {
    const { now } = this.#attachment.pool.timer;
    const start = now();
    const { deaths } = this.#store.ledger;
    if (start < this.#store.countedUntil && deaths === this.#store.deathsTried) return;
    this.#store.deathsTried = deaths;
    this.#store.countedUntil = Number.POSITIVE_INFINITY;
    try {
      yield* this.run();
    } finally {
      const end = now();
      this.#store.countedUntil = end + PAUSES * (end - start);
    }
  }

  *run(): Operation<void> {
    const { ledger } = this.#store;
    const before = yield* inSection(this.#attachment, () => ledger.refresh());
    const { deaths } = ledger;
    const counted = yield* this.#walk();
    const isSure = yield* inSection(this.#attachment, () => correct(ledger, before, counted));
    if (isSure) this.#store.deathsCounted = deaths;
  }

  *#walk(): Operation<{ records: number; bytes: number }> {
    const walk = walkOf(this.#index);
    let records = 0;
    let bytes = 0;
    const visit = ({ found }: Request, keyBytes: number) => {
      records++;
      bytes += blockBytesOf(keyBytes, found.valueBytes);
    };
    while (!walk.done) yield* inSection(this.#attachment, () => someOf(walk, visit));
    return { records, bytes };
  }
}

function* someOf(
  walk: IndexWalk,
  visit: (request: Request, keyBytes: number) => void,
): Operation<void> {
  for (let step = 0; step < STEPS && !walk.done; step++) yield* walk.next(visit, true);
}

/** Returns whether the count is reliable: few enough changes by other clients during the walk. */
function* correct(
  ledger: Ledger,
  before: Reading,
  counted: { records: number; bytes: number },
): Operation<boolean> {
  const after = yield* ledger.refresh();
  // Insertions and evictions may cancel out in the sum, so evictions count as changes of their own.
  const evicted = Math.max(0, after.evicted - before.evicted);
  const evictedBytes = evicted * ledger.perRecordBytes;
  const records = differenceOf(counted.records, before.records, after.records, evicted);
  const bytes = differenceOf(counted.bytes, before.bytes, after.bytes, evictedBytes);
  if (records !== 0 || bytes !== 0) {
    yield* ledger.correct(before, records, bytes);
    yield* ledger.refresh();
  }
  const changed = Math.abs(after.records - before.records) + evicted;
  return changed <= Math.max(1, counted.records / UNSURE_PARTS);
}

function differenceOf(counted: number, before: number, after: number, evicted: number): number {
  const difference = counted - (before + after) / 2;
  const changed = Math.abs(after - before) + evicted;
  return Math.abs(difference) > changed ? Math.round(difference) : 0;
}
