import { type Expiry, TIME_MAX } from '../../records/times.ts';
import type { ExpiryOptions } from '../api.ts';
import { checkFlag, checkOptions, invalid, shown } from '../arguments.ts';

/** The longest time to live, some 4,000 years: added to the time of day, it still fits a record. */
const TTL_MAX = TIME_MAX / 2;

export const EXPIRY_OPTIONS = ['ttlMs', 'expiresAt', 'sliding'] as const;

/** How long the records that a handle writes live by default. */
export interface Lifetime {
  readonly ttlMs: number;
  readonly sliding: boolean;
}

/** The lifetime in the options of `open`. Raises SW_INVALID_ARGUMENT. */
export function lifetimeOf({
  ttlMs,
  sliding = false,
}: Pick<ExpiryOptions, 'ttlMs' | 'sliding'>): Lifetime | undefined {
  checkSliding(sliding, ttlMs);
  if (ttlMs === undefined) return undefined;
  checkTtl(ttlMs);
  return ttlMs === Number.POSITIVE_INFINITY ? undefined : { ttlMs, sliding };
}

/** When a record that is written now expires; undefined for never. Raises SW_INVALID_ARGUMENT. */
export function expiryOf(
  options: ExpiryOptions | undefined,
  lifetime: Lifetime | undefined,
  now: () => number,
): Expiry | undefined {
  if (options === undefined) return lifetime && begin(lifetime, now);
  checkOptions(options, EXPIRY_OPTIONS);
  return expiryIn(options, lifetime, now);
}

/** As `expiryOf`, for options that include others. */
export function expiryIn(
  options: ExpiryOptions,
  lifetime: Lifetime | undefined,
  now: () => number,
): Expiry | undefined {
  const { ttlMs, expiresAt } = options;
  if (expiresAt !== undefined) {
    if (ttlMs !== undefined) throw invalid('a record has ttlMs or expiresAt, not both');
    if (options.sliding) throw invalid('sliding expiry needs ttlMs, not expiresAt');
    return { deadline: checkedTime(expiresAt), sliding: false };
  }
  const lives = ttlMs === undefined ? lifetime?.ttlMs : ttlMs;
  const sliding = options.sliding ?? lifetime?.sliding ?? false;
  checkSliding(sliding, lives);
  if (lives === undefined) return undefined;
  checkTtl(lives);
  return lives === Number.POSITIVE_INFINITY ? undefined : begin({ ttlMs: lives, sliding }, now);
}

function begin({ ttlMs, sliding }: Lifetime, now: () => number): Expiry {
  const span = Math.ceil(ttlMs);
  return { deadline: sliding ? span : Math.ceil(now()) + span, sliding };
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkTtl(ttlMs: unknown): void {
  if (ttlMs === Number.POSITIVE_INFINITY) return;
  if (typeof ttlMs === 'number' && ttlMs > 0 && ttlMs <= TTL_MAX) return;
  throw invalid(`ttlMs is above 0, in milliseconds, or Infinity: ${shown(ttlMs)}`);
}

function checkedTime(expiresAt: unknown): number {
  if (typeof expiresAt === 'number' && expiresAt > 0 && expiresAt <= TIME_MAX) {
    return Math.ceil(expiresAt);
  }
  throw invalid(`expiresAt is a time in milliseconds since 1970: ${shown(expiresAt)}`);
}

function checkSliding(sliding: unknown, ttlMs: unknown): void {
  checkFlag('sliding', sliding);
  if (sliding && ttlMs === undefined) throw invalid('sliding expiry needs ttlMs');
}
