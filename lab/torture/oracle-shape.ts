export interface OracleShape {
  /** Workers at a time. A worker that replaces a dead one takes over its row. */
  rows: number;
  /** Keys that are written by one worker at a time. */
  keys: number;
  /** Sums that all workers add to at once. */
  counters: number;
  /**
   * Keys that all workers insert and remove at once: acknowledged inserts less removals = presence.
   */
  tokens: number;
}
