import { poolFull, Region, type RegionSource } from './region.ts';

/**
 * `memory:`: regions are SharedArrayBuffers that worker threads receive by message. A buffer cannot
 * be handed to threads that are already running, so all regions are allocated at creation; the
 * system gives them memory only as it is touched.
 */
export class MemorySource implements RegionSource {
  readonly path = '';
  readonly buffers: readonly SharedArrayBuffer[];

  constructor(buffers: readonly SharedArrayBuffer[]) {
    this.buffers = buffers;
  }

  static allocate(regions: number, regionBytes: number): MemorySource {
    try {
      return new MemorySource(
        Array.from({ length: regions }, () => new SharedArrayBuffer(regionBytes)),
      );
    } catch (cause) {
      throw poolFull(`the system refused ${regions} x ${regionBytes} bytes`, cause);
    }
  }

  remedy(): string {
    return 'remove records, or create it with a larger size: a memory: pool cannot grow';
  }

  map(index: number): Region | undefined {
    const buffer = this.buffers[index];
    return buffer && new Region(buffer);
  }

  extend(count: number): void {
    if (count > this.buffers.length) throw poolFull('all regions of the memory pool are in use');
  }

  reserve(): void {}

  hugePages(): boolean {
    return false;
  }

  close(): void {}
}
