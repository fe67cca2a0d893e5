import { StepwellError } from '../errors.ts';
import { invalid, shown } from './calls/arguments.ts';

/** Raises SW_INVALID_ARGUMENT. */
export function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw invalid(`signal is an AbortSignal, not ${shown(signal)}`);
}

/**
 * What `act` comes to, or SW_ABORTED with the signal's reason as cause as soon as the signal is
 * aborted: also while `act` waits for a memory node that is silent. `act` goes on by itself then,
 * and nobody hears how it ends.
 */
export async function unlessAborted<T>(
  what: string,
  signal: AbortSignal | undefined,
  act: () => Promise<T>,
): Promise<T> {
  checkSignal(signal);
  if (signal === undefined) return act();
  const why = () =>
    new StepwellError('SW_ABORTED', `${what} was aborted by its signal`, { cause: signal.reason });
  if (signal.aborted) throw why();
  const stop = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(why()), { once: true, signal: stop.signal });
  });
  try {
    return await Promise.race([act(), aborted]);
  } finally {
    stop.abort();
  }
}

/** What is being opened, unless the signal is aborted: what is opened all the same is closed. */
export function abortable<T extends { close(): Promise<void> }>(
  open: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  return unlessAborted('the opening', signal, async () => {
    const opened = await open();
    if (signal?.aborted) opened.close().catch(() => {});
    return opened;
  });
}
