export interface OracleShape {
  /** Simultaneous workers. A worker that replaces a dead one takes over its row. */
  rows: number;
  /** Keys that one worker at a time writes. */
  keys: number;
  /** Sums that all workers add to concurrently. */
  counters: number;
  /**
   * Keys that all workers insert and remove concurrently: a key is present if acknowledged inserts
   * exceed removals by one.
   */
  tokens: number;
}
