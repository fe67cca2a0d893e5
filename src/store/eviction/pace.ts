import type { Index } from '../../indexes/contract.ts';
import { classOfHead } from '../../indexes/substrates/record-io.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { useOf } from '../../pool/memory/chunk-word.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';

/** Records that a client adds between two looks at the free memory. */
const LOOK_EVERY = 256;
/** The share of the blocks that should be free: removed records do not come free one by one. */
const FREE_SHARE = 1 / 64;
/** The share of further free blocks that one client fills until it looks again. Others do, too. */
const FILLED_SHARE = 1 / 16;

/**
 * How many records a client should evict, in a store whose index frees them late: an eviction that
 * waits until blocks are scarce helps too late. So the client evicts as many as it adds, less what
 * others have left free: otherwise a store that had to evict many would stay small.
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

  /** These records are about to be evicted, or need not be. */
  settled(): void {
    this.#ahead = 0;
  }

  /** A record was added: returns how many to evict. */
  *added({ record }: Request): Operation<number> {
    this.#ahead++;
    if (--this.#untilLook < 0) {
      this.#untilLook = LOOK_EVERY;
      this.#ahead -= yield* inSection(this.#attachment, () => this.#spareBlocks(record.headUnits));
    }
    return this.#ahead;
  }

  /** How many more such records than it evicts this client may add until the next look. */
  *#spareBlocks(headUnits: number): Operation<number> {
    const { survey } = this.#attachment.pool.chunks;
    const use = useOf(this.#index.records.catalog, classOfHead(headUnits));
    const { free, blocks } = yield* survey.count(use);
    const spare = FILLED_SHARE * (free - FREE_SHARE * blocks);
    return Math.max(0, Math.min(Math.floor(spare), LOOK_EVERY));
  }
}
