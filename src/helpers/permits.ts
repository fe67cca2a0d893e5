import { StepwellError } from '../errors.ts';
import { isRecord } from '../store/arguments.ts';
import type { StateChange, StateLook } from '../store/internal-calls.ts';

/**
 * Permits that clients hold for a time: a lease is the only one of its name, a semaphore has
 * several. One record has all of it, and every step below is one compare-and-set of that record.
 *
 *   last      token of the last permit that was given
 *   holders   [token, client, until]: who holds a permit, and until when
 *
 *   take    Any client, if fewer holders than permits are alive. It drops the holders that are gone
 *           or late and lists itself, with a token above `last`.
 *   renew   The holder of a token that is listed. It puts its `until` off.
 *   give    The holder of a token that is listed. It removes itself.
 *
 *   A client that dies before its step has changed nothing. One that dies after `take` or `renew`
 *   is gone: the next `take` drops it. After `give` the permit is free.
 *
 * A holder counts while its time has not come (by the clock of the client that looks) and its
 * client can still issue verbs (membership). A dropped holder is never listed again: `renew`
 * changes only what is listed, so a holder that slept finds out, and its token is lower than that
 * of the next.
 *
 * Tokens keep rising even after the record is forgotten. A token is never below the time of day in
 * milliseconds, and the record outlives its last permit for a while: longer if tokens were given
 * out faster than one a millisecond.
 */
export interface Permits {
  readonly last: number;
  readonly holders: readonly Holder[];
}

type Holder = readonly [token: number, client: number, until: number];

/** Clocks of machines may differ by so much without a token falling. */
const KEPT_MS = 3_600_000;

interface TakeOptions {
  permits: number;
  ttlMs: number;
}

/** The token of a permit; undefined while all permits are held. */
export function takePermit(
  state: unknown,
  { now, self, isGone }: StateLook,
  { permits, ttlMs }: TakeOptions,
): StateChange<number | undefined> {
  const { last, holders } = permitsIn(state);
  const alive = holders.filter(([, client, until]) => until > now && !isGone(client));
  if (alive.length >= permits) return { result: undefined };
  const token = Math.max(last + 1, Math.floor(now));
  return { result: token, ...stored(token, [...alive, [token, self, now + ttlMs]]) };
}

/** Whether the permit is still the holder's, for another `ttlMs`. */
export function renewPermit(
  state: unknown,
  { now, self }: StateLook,
  token: number,
  ttlMs: number,
): StateChange<boolean> {
  const { last, holders } = permitsIn(state);
  if (!holders.some((one) => one[0] === token)) return { result: false };
  const renewed = holders.map((one) =>
    one[0] === token ? ([token, self, now + ttlMs] as const) : one,
  );
  return { result: true, ...stored(last, renewed) };
}

/** Whether it was still the holder's. */
export function givePermit(state: unknown, _look: StateLook, token: number): StateChange<boolean> {
  const { last, holders } = permitsIn(state);
  const others = holders.filter((one) => one[0] !== token);
  if (others.length === holders.length) return { result: false };
  return { result: true, ...stored(last, others) };
}

function stored(last: number, holders: readonly Holder[]): Omit<StateChange<unknown>, 'result'> {
  const ends = Math.max(last, ...holders.map(([, , until]) => until));
  return { next: { last, holders }, keepUntil: ends + KEPT_MS };
}

/** Raises SW_UNDECODABLE. */
export function permitsIn(state: unknown): Permits {
  if (state === undefined) return { last: 0, holders: [] };
  const { last, holders } = (isRecord(state) ? state : {}) as Partial<Permits>;
  const isHolder = (one: unknown) =>
    Array.isArray(one) && one.length === 3 && one.every((word) => Number.isFinite(word));
  if (Number.isSafeInteger(last) && Array.isArray(holders) && holders.every(isHolder)) {
    return { last: last as number, holders };
  }
  throw new StepwellError('SW_UNDECODABLE', 'a lease or semaphore has a state that is none');
}
