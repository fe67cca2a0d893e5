import type { RangeNote } from './thread-ranges.ts';

/** If a thread loads this package twice, each copy has ranges of its own. */
const RANGES = Symbol('stepwell.ranges');

export interface Mapping {
  readonly memory: ArrayBuffer;
  readonly address: bigint;
  readonly bytes: number;
  /** Lets other threads of the process unmap the range if this one is terminated. */
  readonly note: RangeNote | undefined;
}

interface ClosedRange extends Omit<Mapping, 'memory'> {
  readonly memory: WeakRef<ArrayBuffer>;
}

/**
 * Addresses of mappings that this thread has closed; zero pages now back them. Views of a range may
 * live long, also in an asynchronous system call. Every view keeps the ArrayBuffer alive: once that
 * has been collected, no views are left.
 */
export class ClosedRanges {
  #ranges: ClosedRange[] = [];

  static ofThread(): ClosedRanges {
    const thread = globalThis as typeof globalThis & { [RANGES]?: ClosedRanges };
    if (thread[RANGES] === undefined) {
      Object.defineProperty(thread, RANGES, { value: new ClosedRanges() });
    }
    return thread[RANGES] as ClosedRanges;
  }

  add({ memory, ...range }: Mapping): void {
    this.#ranges.push({ ...range, memory: new WeakRef(memory) });
  }

  /** Takes the ranges that have no views left. */
  takeUnreachable(): ClosedRange[] {
    const unreachable = this.#ranges.filter(({ memory }) => memory.deref() === undefined);
    if (unreachable.length > 0) {
      this.#ranges = this.#ranges.filter((range) => !unreachable.includes(range));
    }
    return unreachable;
  }

  /**
   * Takes a range of `bytes` even if it has views, whose length becomes 0. From then on V8 checks
   * every access in this thread for detached views, which slows operations by some 15 %. So call
   * this only when addresses have run out.
   */
  seize(bytes: number): ClosedRange | undefined {
    const at = this.#ranges.findIndex((range) => range.bytes === bytes);
    if (at < 0) return undefined;
    const [range] = this.#ranges.splice(at, 1);
    const memory = range.memory.deref();
    if (memory !== undefined) detach(memory);
    return range;
  }
}

/**
 * A byte stream detaches a buffer that is enqueued. `structuredClone` refuses memory from addons,
 * and Node 20 has no `ArrayBuffer.prototype.transfer`.
 */
export function detach(memory: ArrayBuffer): void {
  const bytes = new Uint8Array(memory);
  new ReadableStream({ type: 'bytes', start: (controller) => controller.enqueue(bytes) });
  if (memory.byteLength > 0) throw new Error('this runtime does not detach an ArrayBuffer');
}
