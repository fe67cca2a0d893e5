/**
 * Runs something again and again, with a pause in between, until it says that it is over; it does
 * not keep the process alive. What fails is left to the calls of the store: they meet the same
 * trouble, and raise it.
 */
export function repeat(
  firstPause: number,
  turn: () => Promise<number | undefined> | number | undefined,
): void {
  const wait = (pause: number) => setTimeout(run, pause).unref();
  const run = async () => {
    const pause = await Promise.resolve()
      .then(turn)
      .catch(() => FAILED_PAUSE_MS);
    if (pause !== undefined) wait(pause);
  };
  wait(firstPause);
}

const FAILED_PAUSE_MS = 1000;
