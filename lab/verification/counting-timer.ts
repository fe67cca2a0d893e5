/** Milliseconds per call of `now`: a wait of a second takes a few hundred calls. */
const LOOK_MS = 2;

/** A pool's timer for runs without a clock: it behaves the same in every run. */
export function countingTimer(): () => number {
  let now = 0;
  return () => {
    now += LOOK_MS;
    return now;
  };
}
