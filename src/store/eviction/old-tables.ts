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
/**
 * Tables paid for beyond the next one: keys that ascend in two places fill two at once. Over a
 * network, one wait for epochs brings several of them.
 */
const SPARE = 1;
const SPARE_REMOTE = 4;
/** Evictions between two looks whether the new records still stand beside young ones. */
const LOOK_EVERY = 8;
const LOOK_EVERY_REMOTE = 64;

/** The evictor, as far as this needs it. */
export interface Evicting {
  /** Evicts records in a table of old ones; returns how many. */
  evictOld(own: Request): Operation<number>;
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
  readonly #attachment: Attachment;
  readonly #pool: Pool;
  readonly #evictor: Evicting;
  readonly #most: number;
  /** The memory that the last split lacked, while the writes after it pay for the next one. */
  #wanted: Lacking | undefined;
  /** Evictions that writes have yet to pay. One of those in flight pays for all. */
  #due = 0;
  #isPaying = false;
  /** Evictions since a table was last seen to come free, and at which of them to look again. */
  #evictions = 0;
  #lookAt = 0;
  #writesToSkip = 0;
  #skipNext = 1;

  constructor(attachment: Attachment, evictor: Evicting) {
    this.#attachment = attachment;
    this.#pool = attachment.pool;
    this.#evictor = evictor;
    this.#most = Math.min(VAIN_MAX, AT_ONCE_MAX * attachment.width);
  }

  get #isRemote(): boolean {
    return this.#attachment.width > 1;
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
    for (let i = 0; !this.#isFree(lacking) && i < this.#most; ) i += yield* this.#evict(own);
    const isFree = this.#isFree(lacking);
    if (isFree) {
      this.#countAnew();
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
      for (let i = 0; this.#due > 0 && i < this.#most; ) {
        i += yield* this.#payOne(own, this.#wanted);
      }
      yield* this.#ripen();
    } finally {
      this.#isPaying = false;
    }
    return this.isPaid;
  }

  /** Returns how many evictions it took; none if no more are due. */
  *#payOne(own: Request, wanted: Lacking): Operation<number> {
    if (this.#isFree(wanted, this.#isRemote ? SPARE_REMOTE : SPARE)) {
      this.#due = 0;
      this.#countAnew();
      return 0;
    }
    if (this.#evictions >= VAIN_MAX) {
      this.#rest();
      return 0;
    }
    if (this.#evictions >= this.#lookAt) {
      this.#lookAt = this.#evictions + (this.#isRemote ? LOOK_EVERY_REMOTE : LOOK_EVERY);
      if ((yield* this.#evictor.areYoungBeside(own)) === false) {
        this.#end();
        return 0;
      }
    }
    const evicted = yield* this.#evict(own);
    this.#due -= evicted;
    return evicted;
  }

  /**
   * Over a network a client passes few quiescent points, so tables that came free would still wait
   * when the next split needs them. The split would fail, and with it all writes in flight that
   * want the same table.
   */
  *#ripen(): Operation<void> {
    if (!this.#isRemote || this.#wanted === undefined) return;
    const { catalog, units, count } = this.#wanted;
    const { allocator, reclamation } = this.#pool;
    if (allocator.sizeClass(catalog, units).cache.length >= count) return;
    if (reclamation.waitingOf(catalog, units) === 0) return;
    yield* this.#attachment.exclusive(() => this.#pool.ripening());
  }

  /** Returns how many records it has evicted, and at least 1: attempts count, too. */
  *#evict(own: Request): Operation<number> {
    const evicted = Math.max(1, yield* this.#evictor.evictOld(own));
    this.#evictions += evicted;
    return evicted;
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
    this.#countAnew();
  }

  #countAnew(): void {
    this.#evictions = 0;
    this.#lookAt = 0;
  }
}
