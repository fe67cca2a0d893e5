import { StepwellError } from '../errors.ts';
import { invalid, shown } from './calls/arguments.ts';

/** Raises SW_INVALID_ARGUMENT. */
export function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw invalid(`signal is an AbortSignal, not ${shown(signal)}`);
}

/**
 * What is being opened, unless the signal is aborted before: then it raises SW_ABORTED at once, and
 * what is opened all the same is closed.
 */
export async function abortable<T extends { close(): Promise<void> }>(
  open: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return open();
  const why = () =>
    new StepwellError('SW_ABORTED', 'the opening was aborted by its signal', {
      cause: signal.reason,
    });
  if (signal.aborted) throw why();
  const opening = open();
  const stop = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(why()), { once: true, signal: stop.signal });
  });
  try {
    return await Promise.race([opening, aborted]);
  } catch (error) {
    if (signal.aborted) opening.then((late) => late.close()).catch(() => {});
    throw error;
  } finally {
    stop.abort();
  }
}
