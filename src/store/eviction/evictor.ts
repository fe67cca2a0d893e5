import { hasCode, StepwellError } from '../../errors.ts';
import { ALWAYS, type Condition, EXCHANGE, IF_ABSENT, IF_PRESENT } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { blockBytesOf } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Attachment } from '../calls/attachment.ts';
import type { BoundedStore } from './bounded-store.ts';

/** Samples in vain that one write takes before it leaves what is too much to the next one. */
const VAIN_MAX = 32;

/** What the calls of one handle do about the bound of their store. */
export class Evictor {
  readonly store: BoundedStore;
  readonly #attachment: Attachment;

  constructor(store: BoundedStore, attachment: Attachment) {
    this.store = store;
    this.#attachment = attachment;
  }

  /** Whether the store takes no further keys: it is full, and nothing is evicted. */
  *isShut(): Operation<boolean> {
    if (this.store.evicts) return false;
    yield* this.store.look();
    return this.store.ledger.excess >= 0;
  }

  /** The same after a look at what other clients have deleted, before a write is refused. */
  *isStillShut(): Operation<boolean> {
    yield* this.store.lookNow();
    return this.store.ledger.excess >= 0;
  }

  /** Raised for a key more in a store that is shut. */
  shut(): StepwellError {
    const { unit, limit } = this.store.bound;
    const name = unit === 'records' ? 'maxRecords' : 'maxBytes';
    const remedy = `delete records, or make it anew with eviction: 'lru'`;
    return new StepwellError('SW_POOL_FULL', `the store has its ${name} of ${limit}; ${remedy}`);
  }

  /** Counts what a write has changed that was not refused. */
  written(request: Request): void {
    const added = blockBytesOf(request.keyBytes, request.valueBytes);
    if (request.displaced) this.store.ledger.changed(0, added - foundBytes(request));
    else this.store.ledger.changed(1, added);
  }

  /** Counts what a removal has changed. */
  removed(request: Request): void {
    if (request.displaced) this.store.ledger.changed(-1, -foundBytes(request));
  }

  /** After a write or a removal, outside of its section: evicts what is too much. */
  *settle(request: Request): Operation<void> {
    const { store } = this;
    const { ledger } = store;
    yield* store.look();
    const isNew = !request.displaced && ledger.excess > 0;
    if (isNew) yield* store.noteReturn(request);
    for (let vain = 0; store.evicts && ledger.excess > 0 && vain < VAIN_MAX; ) {
      if (!(yield* this.evictOne(request))) vain++;
    }
    yield* store.publish();
  }

  /** Evicts one record, not that of `spared`; false when it found none, or could not. */
  *evictOne(spared?: Request): Operation<boolean> {
    const sampling = this.store.newSampling();
    yield* this.#attachment.enter();
    try {
      const victim = yield* this.store.findVictim(sampling, spared);
      if (victim === undefined || !(yield* victim.remove())) return false;
      this.store.ledger.evictedOne(foundBytes(victim.request));
      yield* this.store.noteEviction(victim);
      return true;
    } catch (error) {
      // An index that needs memory to remove: left to the remedies of the next write.
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      return false;
    } finally {
      this.#attachment.exit();
      this.store.giveBack(sampling);
    }
  }
}

/** The condition by which an index tells of the old record. */
export function countable(condition: Condition): Condition {
  return condition === ALWAYS ? EXCHANGE : condition;
}

/** The condition under which no key is added. */
export function withoutNewKeys(condition: Condition): Condition {
  return condition === EXCHANGE || condition === ALWAYS ? IF_PRESENT : condition;
}

export function addsKeys(condition: Condition): boolean {
  return condition === ALWAYS || condition === EXCHANGE || condition === IF_ABSENT;
}

function foundBytes({ keyBytes, foundValueBytes }: Request): number {
  return blockBytesOf(keyBytes, foundValueBytes);
}
