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
  /** Present where a client may compare words of the pool where they stand, without a READ. */
  readonly inPlace?: InPlace | undefined;
}

/** The words of a pool where they stand. */
export interface InPlace {
  /** The words of a region. */
  wordsOf(region: number): Float64Array;
  /** Loads behind it see what came before it: verbs of this client, and loads. */
  fence(): void;
}
