/** What waits for others are measured by. */
export interface Timer {
  /** Milliseconds; never goes back. */
  now: () => number;
}

/** Wall-clock time, by which records expire. */
export interface Clock {
  /** Milliseconds since 1970. */
  now: () => number;
}
