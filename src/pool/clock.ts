/** What waits for others are measured by. */
export interface Timer {
  /** Milliseconds; never goes back. */
  now: () => number;
}

/** Wall-clock time, by which records expire, and chance, by which they are evicted. */
export interface Clock {
  /** Milliseconds since 1970. */
  now: () => number;
  /** A number of [0, 1), any of them as likely as another. */
  chance: () => number;
}
