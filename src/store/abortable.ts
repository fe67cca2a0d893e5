import { setMaxListeners } from 'node:events';
import { StepwellError } from '../errors.ts';
import { invalid, shown } from './arguments.ts';

/** Raises SW_INVALID_ARGUMENT. */
export function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw invalid(`signal is an AbortSignal, not ${shown(signal)}`);
}

/**
 * Returns the result of `act`. Raises SW_ABORTED, with the signal's reason as cause, as soon as the
 * signal is aborted, even while `act` waits for a silent memory node. Then `act` goes on, and its
 * outcome is ignored.
 */
export async function unlessAborted<T>(
  what: string,
  signal: AbortSignal | undefined,
  act: () => Promise<T>,
): Promise<T> {
  checkSignal(signal);
  if (signal === undefined) return act();
  refuseAborted(what, signal);
  const stop = new AbortController();
  const ended = new Promise<never>((_, reject) => {
    const abort = () => reject(aborted(what, signal));
    signal.addEventListener('abort', abort, { once: true, signal: stop.signal });
  });
  try {
    return await Promise.race([act(), ended]);
  } finally {
    stop.abort();
  }
}

function aborted(what: string, { reason: cause }: AbortSignal): StepwellError {
  return new StepwellError('SW_ABORTED', `${what} was aborted by its signal`, { cause });
}

/** Raises SW_ABORTED. */
export function refuseAborted(what: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw aborted(what, signal);
}

/**
 * A new signal, aborted when either one is. Raises SW_INVALID_ARGUMENT if an argument is no signal.
 */
export function eitherSignal(one: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  if (one === undefined) throw invalid('signal is an AbortSignal, and missing');
  checkSignal(one);
  checkSignal(other);
  const either = AbortSignal.any(other === undefined ? [one] : [one, other]);
  // Every call in flight listens: that is no leak.
  setMaxListeners(0, either);
  return either;
}

/** The options of a scan that this signal ends, too. */
export function untilAborted<O extends { signal?: AbortSignal }>(
  options: O,
  signal: AbortSignal | undefined,
): O {
  // The scan itself refuses a value that is not an object.
  if (signal === undefined || typeof options !== 'object') return options;
  return { ...options, signal: eitherSignal(signal, options?.signal) };
}

/** Opens something unless the signal is aborted; closes it if it opens after that. */
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
