import type { UcxLibrary } from '../binding/library.ts';
import { Pinned } from '../binding/structs.ts';

const LINE_BYTES = 64;

/**
 * Registered memory through which verbs exchange data with scratches, allocated and freed in order.
 * Unlike a scratch it never moves, and it stays reachable as long as the NIC may write to it.
 */
export class BounceRing {
  readonly bytes: number;
  readonly memory: Pinned;
  /** Start and end of the used part; both only grow. */
  #first = 0;
  #end = 0;

  constructor(ucx: UcxLibrary, bytes: number) {
    this.bytes = bytes;
    this.memory = new Pinned(ucx, bytes);
  }

  /** Bytes in use. */
  get taken(): number {
    return this.#end - this.#first;
  }

  /** The end of everything taken so far, for `giveBack`. */
  get mark(): number {
    return this.#end;
  }

  /** Takes contiguous bytes. Returns their offset, or -1 if there is no room. */
  take(bytes: number): number {
    const wanted = Math.ceil(bytes / LINE_BYTES) * LINE_BYTES;
    const at = this.#end % this.bytes;
    // An allocation does not wrap around.
    const skipped = at + wanted > this.bytes ? this.bytes - at : 0;
    if (this.taken + skipped + wanted > this.bytes) return -1;
    this.#end += skipped + wanted;
    return skipped > 0 ? 0 : at;
  }

  /** Frees everything that was taken before the mark. */
  giveBack(mark: number): void {
    this.#first = mark;
  }
}
