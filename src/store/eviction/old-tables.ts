import type { Request } from '../../indexes/substrates/request.ts';
import type { Lacking } from '../../pool/memory/allocator.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Attachment } from '../attachment.ts';

/** Most evictions for one write. Over a network, writes in flight wait for the one that evicts. */
const AT_ONCE_MAX = 12;
/** Evictions that a write pays, so that a table is free before the next split. */
const PAYMENT = 3;
/**
 * Evictions in a row without a table coming free before it gives up: four CHIME leaves. The first
 * leaf below a parent often cannot be merged before the next one is empty, too.
 */
const VAIN_MAX = 256;
/** Most writes to skip before an old table is emptied again. */
const SKIPS_MAX = 4096;
/** Tables paid for beyond the next one: keys that ascend in two places fill two at once. */
const SPARE = 1;
/** Evictions between two looks whether the new records still stand beside young ones. */
const LOOK_EVERY = 8;

/** The evictor, as far as this needs it. */
export interface Evicting {
  /** Evicts a record in a table of old ones; false if it found none. */
  evictOld(own: Request): Operation<boolean>;
  /** Undefined if no record stands beside it. */
  areYoungBeside(own: Request): Operation<boolean | undefined>;
}

/**
 * Empties tables of old records, for writes whose own tables have only young ones: those of keys
 * that ascend, such as times. The index merges an empty table, and its block serves to split
 * another one (docs/protocols/eviction.md).
 *
 * A write that cannot split its table evicts some old records. If that was enough, the writes after
 * it pay for the next one: each evicts three records, until a table is free. Otherwise the next
 * split would have to wait until all records of a table are evicted.
 */
export class OldTables {
  readonly #pool: Pool;
  readonly #evictor: Evicting;
  readonly #most: number;
  /** The memory that the last split lacked, while the writes after it pay for the next one. */
  #wanted: Lacking | undefined;
  /** Evictions that writes have yet to pay. One of those in flight pays for all. */
  #due = 0;
  #isPaying = false;
  /** Evictions since a table was last seen to come free. */
  #evictions = 0;
  #writesToSkip = 0;
  #skipNext = 1;

  constructor({ pool, width }: Attachment, evictor: Evicting) {
    this.#pool = pool;
    this.#evictor = evictor;
    this.#most = Math.min(VAIN_MAX, AT_ONCE_MAX * width);
  }

  /** Whether no table came free lately, for as many writes as that has happened before. */
  get isResting(): boolean {
    return this.#writesToSkip > 0;
  }

  /** Whether writes pay for the next table. */
  get isPaid(): boolean {
    return this.#wanted !== undefined;
  }

  /** Evicts old records for a write that lacks a table; returns whether there is one now. */
  *empty(own: Request, lacking: Lacking): Operation<boolean> {
    for (let i = 0; !this.#isFree(lacking) && i < this.#most; i++) yield* this.#evict(own);
    const isFree = this.#isFree(lacking);
    if (isFree) {
      this.#evictions = 0;
      this.#skipNext = 1;
    }
    if (this.#evictions < VAIN_MAX) this.#wanted = lacking;
    else this.#rest();
    return isFree;
  }

  /** After a write that added a record. False if the next table need not be paid for. */
  *pay(own: Request): Operation<boolean> {
    if (this.#writesToSkip > 0) this.#writesToSkip--;
    if (this.#wanted === undefined || !own.isInTable) return false;
    this.#due += PAYMENT;
    if (this.#isPaying) return true;
    this.#isPaying = true;
    try {
      for (let i = 0; this.#due > 0 && i < this.#most; i++) {
        this.#due--;
        yield* this.#payOne(own, this.#wanted);
      }
    } finally {
      this.#isPaying = false;
    }
    return this.isPaid;
  }

  *#payOne(own: Request, wanted: Lacking): Operation<void> {
    if (this.#isFree(wanted, SPARE)) {
      this.#due = 0;
      this.#evictions = 0;
    } else if (this.#evictions >= VAIN_MAX) {
      this.#rest();
    } else {
      const isTime = this.#evictions % LOOK_EVERY === 0;
      if (isTime && (yield* this.#evictor.areYoungBeside(own)) === false) return this.#end();
      yield* this.#evict(own);
    }
  }

  *#evict(own: Request): Operation<void> {
    this.#evictions++;
    yield* this.#evictor.evictOld(own);
  }

  #isFree({ catalog, units, count }: Lacking, spare = 0): boolean {
    const { allocator, reclamation } = this.#pool;
    const { cache } = allocator.sizeClass(catalog, units);
    return cache.length + reclamation.waitingOf(catalog, units) >= count + spare;
  }

  /**
   * No table came free. Other clients may have taken it, or its merge may have lacked memory. So
   * each time doubles the number of writes to skip.
   */
  #rest(): void {
    this.#skipNext = Math.min(2 * this.#skipNext, SKIPS_MAX);
    this.#writesToSkip = this.#skipNext;
    this.#end();
  }

  #end(): void {
    this.#wanted = undefined;
    this.#due = 0;
    this.#evictions = 0;
  }
}
