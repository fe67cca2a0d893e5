import { highHalf, lowHalf, readInteger, type Scratch, writeInteger } from '../verbs/index.ts';
import { FLAG_SLIDING, FLAG_TIMED } from './layout.ts';

/**
 * The times of a record, which precede its value:
 *
 *   0  access 64    time of the last access 52 | uses 12; outside of the checksum
 *   8  deadline 64  when the record expires; 0 for never; with SLIDING how long after an access
 *
 * A deadline is in milliseconds since 1970 and immutable like the value: to change it takes a new
 * record. The access word has the time in ticks of 1/1024 millisecond and the number of uses, for
 * eviction. Clients write it in place.
 */
const ACCESS = 0;
const DEADLINE = 8;
/** The checksum of a record covers its value from here on. */
export const UNCHECKED_BYTES = 8;

/** The latest deadline. */
export const TIME_MAX = 2 ** 48 - 1;

export const TICKS_PER_MS = 1024;
const MILLISECONDS_MAX = 2 ** 42 - 1;
const TICKS_HIGH_BITS = 0xfffff;
const USES_SHIFT = 20;
const USES_MAX = 0xfff;
/**
 * A count below USES_EXACT is exact; above, it has a mantissa of USES_DIGITS values and an
 * exponent.
 */
const USES_EXACT = 512;
const USES_DIGITS = 256;

/** When an outgoing record expires. */
export interface Expiry {
  /** Milliseconds since 1970 when it expires; with `sliding`, how long after each access. */
  readonly deadline: number;
  readonly sliding: boolean;
}

/** Times of a record that never expires. */
export const NEVER: Expiry = { deadline: 0, sliding: false };

/** When a record was last accessed, and how often it was used. */
export interface Access {
  ticks: number;
  uses: number;
}

/** Flags of the header for a record with this expiry. */
export function flagsOf(expiry: Expiry | undefined): number {
  if (expiry === undefined) return 0;
  return expiry.sliding ? FLAG_TIMED | FLAG_SLIDING : FLAG_TIMED;
}

export function writeTimes(scratch: Scratch, at: number, expiry: Expiry, ticks: number): void {
  const word = (at + ACCESS) >> 2;
  scratch.i32[word] = lowOfAccess(ticks);
  scratch.i32[word + 1] = highOfAccess(ticks, 1);
  writeInteger(scratch, at + DEADLINE, expiry.deadline);
}

/** The halves of an access word; `ticks` must fit it. */
export function lowOfAccess(ticks: number): number {
  return ticks | 0;
}

export function highOfAccess(ticks: number, uses: number): number {
  return Math.floor(ticks / 2 ** 32) | (uses << USES_SHIFT);
}

/** The expiry in the times at `at`; undefined for a record that never expires. */
export function readExpiry(scratch: Scratch, at: number, flags: number): Expiry | undefined {
  const deadline = readInteger(scratch, at + DEADLINE);
  return deadline === 0 ? undefined : { deadline, sliding: (flags & FLAG_SLIDING) !== 0 };
}

/** When the record with these times expires; infinity for never. */
export function expiresAt(scratch: Scratch, at: number, flags: number): number {
  const deadline = readInteger(scratch, at + DEADLINE);
  if (deadline === 0) return Number.POSITIVE_INFINITY;
  if ((flags & FLAG_SLIDING) === 0) return deadline;
  return Math.floor(ticksAt(scratch, at) / TICKS_PER_MS) + deadline;
}

/** When the record was accessed last. */
export function ticksAt(scratch: Scratch, at: number): number {
  const high = highHalf(scratch, at + ACCESS) & TICKS_HIGH_BITS;
  return high * 2 ** 32 + (lowHalf(scratch, at + ACCESS) >>> 0);
}

/** How often the record was used: exact below 512, above that roughly its logarithm. */
export function usesAt(scratch: Scratch, at: number): number {
  return highHalf(scratch, at + ACCESS) >>> USES_SHIFT;
}

/**
 * The count after one more use. Above 511 a count has 8 bits and an exponent, and grows at random
 * (Morris, "Counting large numbers of events in small registers", CACM 21(10), 1978). So it can
 * compare even records that were used some million times.
 */
export function usedOnceMore(uses: number, chance: () => number): number {
  if (uses < USES_EXACT - 1) return uses + 1;
  const exponent = Math.floor(uses / USES_DIGITS) - 1;
  const grows = chance() * 2 ** exponent < 1;
  return grows ? Math.min(uses + 1, USES_MAX) : uses;
}

/** How long after an access a record with SLIDING expires. */
export function spanOf(scratch: Scratch, at: number): number {
  return readInteger(scratch, at + DEADLINE);
}

/**
 * Orders one client's accesses within a millisecond of its clock: each is one tick later than the
 * one before, up to the last tick of that millisecond.
 */
export class AccessClock {
  readonly #clock: { now: () => number };
  #millisecond = -1;
  #tick = 0;

  constructor(clock: { now: () => number }) {
    this.#clock = clock;
  }

  ticks(): number {
    const now = Math.min(Math.max(0, Math.floor(this.#clock.now())), MILLISECONDS_MAX);
    if (now !== this.#millisecond) {
      this.#millisecond = now;
      this.#tick = 0;
    } else if (this.#tick < TICKS_PER_MS - 1) this.#tick++;
    return now * TICKS_PER_MS + this.#tick;
  }
}
