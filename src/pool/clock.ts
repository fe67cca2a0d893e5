/** Wall-clock time, by which records expire. */
export interface Clock {
  /** Milliseconds since 1970. */
  now: () => number;
}
