import type { UcxLibrary } from '../binding/library.ts';
import { Pinned } from '../binding/structs.ts';

const LINE_BYTES = 64;

/**
 * Registered memory through which verbs reach their scratches, taken and given back in order. It
 * never moves, and is reachable as long as anything may write into it: a scratch is neither.
 */
export class BounceRing {
  readonly bytes: number;
  readonly memory: Pinned;
  /** Where what is taken begins and ends; both only grow. */
  #first = 0;
  #end = 0;

  constructor(ucx: UcxLibrary, bytes: number) {
    this.bytes = bytes;
    this.memory = new Pinned(ucx, bytes);
  }

  /** Bytes that are taken. */
  get taken(): number {
    return this.#end - this.#first;
  }

  /** Where all that was taken up to now ends. */
  get mark(): number {
    return this.#end;
  }

  /** Takes bytes in one piece; returns where they begin, or -1 when there is no room. */
  take(bytes: number): number {
    const wanted = Math.ceil(bytes / LINE_BYTES) * LINE_BYTES;
    const at = this.#end % this.bytes;
    // A piece does not go round the end.
    const skipped = at + wanted > this.bytes ? this.bytes - at : 0;
    if (this.taken + skipped + wanted > this.bytes) return -1;
    this.#end += skipped + wanted;
    return skipped > 0 ? 0 : at;
  }

  /** Gives back all that was taken before the mark. */
  giveBack(mark: number): void {
    this.#first = mark;
  }
}
