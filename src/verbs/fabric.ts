import type { Address } from './address.ts';
import type { Batch } from './batch.ts';
import type { TrafficCounters } from './traffic.ts';

/** Where verbs run. One fabric value belongs to one client. */
export interface Fabric {
  readonly traffic: TrafficCounters;
  /** Executes one batch: one round trip. */
  execute(batch: Batch): void;
  /**
   * The pool's own memory, without a copy. Use it for immutable data that the caller keeps from
   * being re-used (a record under an epoch); anything else needs the snapshot that a READ takes.
   */
  window(address: Address, bytes: number): Uint8Array;
}
