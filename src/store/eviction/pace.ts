import type { Index } from '../../indexes/contract.ts';
import { classOfHead } from '../../indexes/substrates/record-io.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { useOf } from '../../pool/memory/chunk-word.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';

/** Records that a client adds between two looks at the free memory. */
const LOOK_EVERY = 256;
/**
 * The share of the blocks that should be free: removed records do not come free one by one. A write
 * that finds no free block has segments merged until it does, and takes as long as a dozen others.
 */
const FREE_SHARE = 1 / 64;
/** The part of a surplus or lack that one client makes up until it looks again. Others do, too. */
const SETTLED_SHARE = 1 / 16;
/** Most records beyond those added that a client evicts between two looks. */
const LACKING_MAX = LOOK_EVERY / 2;

/**
 * How many records a client should evict, in a store whose index frees them late: an eviction that
 * waits until blocks are scarce helps too late. So the client evicts as many as it adds, and some
 * more or fewer until enough blocks are free. With fewer free blocks, many writes would find none.
 * With more, a store that had to evict many records would stay small.
 */
export class EvictionPace {
  readonly #attachment: Attachment;
  readonly #index: Index;
  /** Records added less those removed and evicted; below zero, some may be added without. */
  #ahead = 0;
  #untilLook = 0;

  constructor(attachment: Attachment, index: Index) {
    this.#attachment = attachment;
    this.#index = index;
  }

  /** The caller has removed a record. What others take of its memory is soon found out. */
  removed(): void {
    this.#ahead = Math.max(this.#ahead - 1, -LOOK_EVERY);
  }

  /** So many records are about to be evicted. */
  settled(count: number): void {
    this.#ahead -= count;
  }

  /** No record need be evicted for those that were added. */
  forgive(): void {
    this.#ahead = 0;
  }

  /** A record was written: returns how many to evict. */
  *written({ record, displaced }: Request): Operation<number> {
    if (!displaced) this.#ahead++;
    if (--this.#untilLook < 0) {
      this.#untilLook = LOOK_EVERY;
      const spare = yield* inSection(this.#attachment, () => this.#spareBlocks(record.headUnits));
      this.#ahead = Math.max(this.#ahead - spare, -LOOK_EVERY);
    }
    return this.#ahead;
  }

  /**
   * How many more such records than it evicts this client may add until the next look. Below zero,
   * how many more it should evict.
   */
  *#spareBlocks(headUnits: number): Operation<number> {
    const { allocator, chunks } = this.#attachment.pool;
    const { catalog } = this.#index.records;
    const use = useOf(catalog, classOfHead(headUnits));
    const { free, blocks } = yield* chunks.survey.count(use, allocator.reserveOf(catalog));
    const spare = SETTLED_SHARE * (free - FREE_SHARE * blocks);
    return Math.max(-LACKING_MAX, Math.min(Math.floor(spare), LOOK_EVERY));
  }
}
