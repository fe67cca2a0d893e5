/** Milliseconds that a look at the time takes: a wait of a second is a few hundred looks. */
const LOOK_MS = 2;

/** A pool's timer in runs that know no time: the same in every run. */
export function countingTimer(): () => number {
  let now = 0;
  return () => {
    now += LOOK_MS;
    return now;
  };
}
