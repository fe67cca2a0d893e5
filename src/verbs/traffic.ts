/** Rows of the counters that every fabric keeps for its client. */
export const ROUND_TRIPS = 0;
export const READS = 1;
export const WRITES = 2;
export const SWAPS = 3;
export const ADDS = 4;
export const BYTES_READ = 5;
export const BYTES_WRITTEN = 6;

export class TrafficCounters {
  /** Doubles in a typed array: counting never allocates and never overflows in practice. */
  readonly rows = new Float64Array(7);

  /** Runs something whose traffic is not the client's, such as counting records for statistics. */
  uncounted<T>(action: () => T): T {
    const before = this.rows.slice();
    try {
      return action();
    } finally {
      this.rows.set(before);
    }
  }

  snapshot() {
    const [roundTrips, reads, writes, compareAndSwaps, fetchAndAdds, bytesRead, bytesWritten] =
      this.rows;
    return { roundTrips, reads, writes, compareAndSwaps, fetchAndAdds, bytesRead, bytesWritten };
  }
}
