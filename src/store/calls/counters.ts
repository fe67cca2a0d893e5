import { StepwellError } from '../../errors.ts';
import type { FoundRecord, Request } from '../../indexes/substrates/request.ts';
import type { Expiry } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Key, Value } from '../api.ts';
import { decodeValue, encoded, type Format, storedValue } from '../values.ts';
import { type RecordAccess, Unchanged } from './record-access.ts';

const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);
/** A number holds every integer of so many digits exactly. */
const EXACT_DIGITS = 15;
const DIGIT_ZERO = 48;
/** Room for a counter in decimal digits. */
const COUNTER_BYTES = 32;

/** The bounds that a counter must stay within. */
interface CounterBounds {
  min?: bigint | undefined;
  max?: bigint | undefined;
}

/** The result of adding to a counter. */
interface Added {
  applied: boolean;
  sum: bigint;
  expiresAt: number;
}

/**
 * Adds to a counter, which keeps its expiry. Does not change a counter that would leave its bounds;
 * `sum` is its value afterwards. Raises SW_OVERFLOW beyond 64 bits or, if `safe`, beyond the
 * integers that a number holds exactly.
 */
export function* addTo(
  access: RecordAccess,
  key: Key,
  by: bigint,
  safe: boolean,
  expiry: Expiry | undefined,
  { min, max }: CounterBounds = {},
): Operation<Added> {
  const request = access.requestTo('write', key, COUNTER_BYTES);
  const { values } = access.settings;
  const added: Added = { applied: false, sum: 0n, expiresAt: Number.POSITIVE_INFINITY };
  yield* access.modify(request, expiry, (present) => {
    const old = present ? integerIn(request, values) : 0n;
    const sum = old + by;
    added.applied = (min === undefined || sum >= min) && (max === undefined || sum <= max);
    added.sum = checkRange(added.applied ? sum : old, safe);
    if (present) added.expiresAt = request.foundExpiresAt;
    else if (added.applied) added.expiresAt = expiresAt(expiry, access.attachment.pool.clock.now);
    request.record.expiry = access.timesOf(present ? request.foundExpiry : expiry);
    if (!added.applied) throw new Unchanged();
    access.index.records.encodeValue(request, integerOut(sum, values), access.nextVersion());
  });
  return added;
}

/** When a record that is written now expires. */
function expiresAt(expiry: Expiry | undefined, now: () => number): number {
  if (expiry === undefined) return Number.POSITIVE_INFINITY;
  return expiry.deadline + (expiry.sliding ? now() : 0);
}

/**
 * Decimal 64-bit integers as `increment` (and Redis) reads them: no + sign and no leading zeros.
 */
function parseInteger(text: string): bigint {
  const integer = /^-?(0|[1-9][0-9]{0,18})$/.test(text) && text !== '-0' ? BigInt(text) : undefined;
  if (integer === undefined || integer > INT64_MAX || integer < INT64_MIN) {
    throw new StepwellError('SW_NOT_INTEGER', 'the value is not a decimal 64-bit integer');
  }
  return integer;
}

function checkRange(sum: bigint, safe: boolean): bigint {
  const fits = safe ? Number.isSafeInteger(Number(sum)) : sum <= INT64_MAX && sum >= INT64_MIN;
  if (!fits) throw new StepwellError('SW_OVERFLOW', 'the sum would leave the range of integers');
  return sum;
}

/** The counter in the found record: digits, or what a format decodes to an integer. */
function integerIn(request: Request, format: Format): bigint {
  if (typeof format === 'string') {
    const short = shortNatural(request.found);
    return short >= 0 ? BigInt(short) : parseInteger(storedValue(request, 'utf8') as string);
  }
  const value = decodeValue(request, format);
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return BigInt(value as number);
  throw new StepwellError('SW_NOT_INTEGER', 'the value is not an integer');
}

/** Reads the form that most counters have, without making a string; -1 for any other form. */
function shortNatural({ contentAt, contentBytes, memory }: FoundRecord): number {
  const { u8 } = memory;
  if (contentBytes === 0 || contentBytes > EXACT_DIGITS) return -1;
  if (u8[contentAt] === DIGIT_ZERO && contentBytes > 1) return -1;
  let value = 0;
  for (let at = contentAt; at < contentAt + contentBytes; at++) {
    const digit = u8[at] - DIGIT_ZERO;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** A counter's stored value: in a format a number where that is exact, else a bigint. */
function integerOut(sum: bigint, format: Format): Value {
  if (typeof format === 'string') return sum.toString();
  return encoded(Number.isSafeInteger(Number(sum)) ? Number(sum) : sum, format);
}
