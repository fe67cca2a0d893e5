import { highHalf, lowHalf, readInteger, type Scratch, writeInteger } from '../verbs/index.ts';
import { FLAG_SLIDING, FLAG_TIMED } from './layout.ts';

/**
 * The times of a record, which stand in front of its value:
 *
 *   0  access 64    time of the last access 48 | unused 16; outside of the checksum
 *   8  deadline 64  when the record expires; 0 for never; with SLIDING how long after an access
 *
 * All are milliseconds, times of day since 1970. A deadline is immutable as the value is: another
 * one takes another record. Clients write the access word where it stands.
 */
const ACCESS = 0;
const DEADLINE = 8;
/** The checksum of a record covers its value from here on. */
export const UNCHECKED_BYTES = 8;

const ACCESS_HIGH_BITS = 0xffff;
/** What an access word can say. */
export const TIME_MAX = 2 ** 48 - 1;

/** When a record that is written expires. */
export interface Expiry {
  /** Milliseconds since 1970 when it expires; with `sliding`, how long after each access. */
  readonly deadline: number;
  readonly sliding: boolean;
}

/** Flags of the header for a record with this expiry. */
export function flagsOf(expiry: Expiry | undefined): number {
  if (expiry === undefined) return 0;
  return expiry.sliding ? FLAG_TIMED | FLAG_SLIDING : FLAG_TIMED;
}

export function writeTimes(scratch: Scratch, at: number, { deadline }: Expiry, now: number): void {
  writeAccess(scratch, at + ACCESS, now);
  writeInteger(scratch, at + DEADLINE, deadline);
}

export function writeAccess(scratch: Scratch, at: number, now: number): void {
  writeInteger(scratch, at, Math.min(Math.max(0, now), TIME_MAX));
}

/** What times were written with; undefined for a record that never expires. */
export function readExpiry(scratch: Scratch, at: number, flags: number): Expiry | undefined {
  const deadline = readInteger(scratch, at + DEADLINE);
  return deadline === 0 ? undefined : { deadline, sliding: (flags & FLAG_SLIDING) !== 0 };
}

/** When the record whose times stand there expires; infinity for never. */
export function expiresAt(scratch: Scratch, at: number, flags: number): number {
  const deadline = readInteger(scratch, at + DEADLINE);
  if (deadline === 0) return Number.POSITIVE_INFINITY;
  return (flags & FLAG_SLIDING) === 0 ? deadline : accessedAt(scratch, at) + deadline;
}

function accessedAt(scratch: Scratch, at: number): number {
  const high = highHalf(scratch, at + ACCESS) & ACCESS_HIGH_BITS;
  return high * 2 ** 32 + (lowHalf(scratch, at + ACCESS) >>> 0);
}

/** How long after an access a record with SLIDING expires. */
export function spanOf(scratch: Scratch, at: number): number {
  return readInteger(scratch, at + DEADLINE);
}
