import type { RangeNote } from './thread-ranges.ts';

/** Each copy of this package in a thread has its own; see store/local/local-client.ts. */
const RANGES = Symbol('stepwell.ranges');

export interface Mapping {
  readonly memory: ArrayBuffer;
  readonly address: bigint;
  readonly bytes: number;
  /** For other threads of the process, should this one be terminated. */
  readonly note: RangeNote | undefined;
}

interface ClosedRange extends Omit<Mapping, 'memory'> {
  readonly memory: WeakRef<ArrayBuffer>;
}

/**
 * Addresses of the mappings that this thread has closed, on which pages of zeros stand. Views of
 * one may be alive for long, in an asynchronous call of the system too. Each of them holds the
 * ArrayBuffer: when that has been collected, there are none.
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

  /** Hands over the ranges that have no view left. */
  takeUnreachable(): ClosedRange[] {
    const unreachable = this.#ranges.filter(({ memory }) => memory.deref() === undefined);
    if (unreachable.length > 0) {
      this.#ranges = this.#ranges.filter((range) => !unreachable.includes(range));
    }
    return unreachable;
  }

  /**
   * Hands over a range of `bytes` even if it has views, whose length becomes 0. From then on V8
   * checks each access in this thread for such views, which makes operations some 15 % slower. So
   * call this only when addresses have run out.
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
 * A stream takes over the memory of what is put in. `structuredClone` refuses memory of addons, and
 * Node 20 has no `ArrayBuffer.prototype.transfer`.
 */
function detach(memory: ArrayBuffer): void {
  const bytes = new Uint8Array(memory);
  new ReadableStream({ type: 'bytes', start: (controller) => controller.enqueue(bytes) });
  if (memory.byteLength > 0) throw new Error('this runtime does not detach an ArrayBuffer');
}
