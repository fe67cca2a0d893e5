import type { Operation } from '../../../verbs/index.ts';
import { type Folded, FoldedLog } from '../protocol/log.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { readState } from '../protocol/pair-state.ts';
import { readKeys } from '../protocol/record-heads.ts';
import { SkiplistImage } from './skiplist-image.ts';

/**
 * The skiplist of a pair in this process's memory: a state machine that follows the log. It holds
 * the keys in order, and for each the slot that has it and the record that the slot names, as of
 * sequence `applied`. It is lost with its process, and built anew from the hash table and the
 * records in the pool (catch-up.ts).
 */
export class SkiplistCopy {
  readonly #pair: PairAccess;
  image: SkiplistImage;
  /** Everything up to here is in the skiplist; -1 before it was built. */
  applied = -1;
  /** The table that its slots are of. */
  generation = 0;
  rebuilds = 0;
  /** Whether an operation of this client takes it further. */
  isAdvancing = false;
  /** Changes as long as that operation gets ahead. */
  progress = 0;

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.image = this.empty();
  }

  empty(): SkiplistImage {
    const { partitions, seed } = this.#pair.geometry.shape;
    return new SkiplistImage(partitions, seed);
  }

  /** Takes a skiplist that was built, unless an interleaved operation has come further. */
  install(image: SkiplistImage, generation: number, committed: number): void {
    if (this.generation > generation || this.has(generation, committed)) return;
    this.image = image;
    this.generation = generation;
    this.applied = committed;
  }

  /**
   * Whether it is as of this sequence; or of a later table, and so of all that was committed to
   * that one before.
   */
  has(generation: number, committed: number): boolean {
    return this.generation >= generation && this.applied >= committed;
  }

  /** Goes to a sequence by the log alone, if it can from the table that it knows. */
  *followLog(generation: number, target: number): Operation<boolean> {
    while (this.applied >= 0 && this.generation === generation) {
      if (this.applied >= target) return true;
      // Again, when an interleaved operation was faster with a part of it.
      const from = this.applied;
      const log = new FoldedLog(this.#pair.geometry, from);
      if (!(yield* log.follow(target))) return false;
      yield* this.#apply(from, target, log.changes);
    }
    return false;
  }

  /** Follows the log as far as it is committed, if that can be done; waits for nothing. */
  *keepUp(): Operation<void> {
    if (this.isAdvancing) return;
    this.isAdvancing = true;
    try {
      const { committed, table } = yield* readState(this.#pair);
      yield* this.followLog(table.generation, committed);
    } finally {
      this.isAdvancing = false;
    }
  }

  /**
   * Takes the skiplist from one sequence to a later one. Keys are read first. Their records are
   * there, because each is the last of its slot up to a sequence that was committed after this
   * operation began. Then all happens at once, unless an interleaved operation has done it.
   */
  *#apply(from: number, target: number, changes: readonly Folded[]): Operation<void> {
    const image = this.image;
    const keys = yield* readKeys(changes.filter((change) => image.wantsKeyOf(change)));
    if (this.applied !== from || this.image !== image) return;
    image.change(changes, keys);
    this.applied = target;
  }
}
