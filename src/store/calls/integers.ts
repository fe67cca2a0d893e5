import { StepwellError } from '../../errors.ts';

const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);

/** Decimal 64-bit integers as `increment` (and Redis) understand them: no sign but -, no zeros. */
export function parseInteger(text: string): bigint {
  const integer = /^-?(0|[1-9][0-9]{0,18})$/.test(text) && text !== '-0' ? BigInt(text) : undefined;
  if (integer === undefined || integer > INT64_MAX || integer < INT64_MIN) {
    throw new StepwellError('SW_NOT_INTEGER', 'the value is not a decimal 64-bit integer');
  }
  return integer;
}

/** Raises SW_OVERFLOW beyond 64 bits, or beyond what a number holds exactly when `safe`. */
export function checkRange(sum: bigint, safe: boolean): bigint {
  const fits = safe ? Number.isSafeInteger(Number(sum)) : sum <= INT64_MAX && sum >= INT64_MIN;
  if (!fits) throw new StepwellError('SW_OVERFLOW', 'the sum would leave the range of integers');
  return sum;
}
