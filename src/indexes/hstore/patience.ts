/** Polls without a pause: on one machine the answer comes soon. */
const POLLS_WITHOUT_PAUSE = 32;
/** From so many polls on the answer is known to take long. */
const POLLS_BEFORE_LONG_PAUSES = 2000;

/** How long a client waits for the server's answer. */
export interface Patience {
  /** Polls between two looks whether the server is still there. */
  polls: number;
  /** Polls without any progress of a server that yields after which it is overtaken. */
  stand: number;
  /** Polls without any progress of the server after which it stands still and is fenced. */
  lapse: number;
  /** Polls after which the client gives up. */
  pollsMax: number;
  /** Looks for a row of a mailbox after which it gives up. */
  waitsMax: number;
  /** Pause between two polls, but for the first ones, and after many. */
  microseconds: number;
  longMicroseconds: number;
}

/**
 * Long pauses are what time is told by: 5000 polls take at least 3 seconds on every fabric. For a
 * row a client waits longer than for an answer: until it is free a server may have to be fenced.
 */
export const PATIENCE: Patience = {
  polls: 64,
  stand: 256,
  lapse: 5000,
  pollsMax: 60_000,
  waitsMax: 20_000,
  microseconds: 200,
  longMicroseconds: 1000,
};

/** The pause after so many polls. */
export function pauseAfter(poll: number, { microseconds, longMicroseconds }: Patience): number {
  if (poll < POLLS_WITHOUT_PAUSE) return 0;
  return poll < POLLS_BEFORE_LONG_PAUSES ? microseconds : longMicroseconds;
}

/** The same of an operation that looks at nothing but this client's own memory. */
export function localPauseAfter(poll: number, { longMicroseconds }: Patience): number {
  return poll < POLLS_BEFORE_LONG_PAUSES ? 0 : longMicroseconds;
}
