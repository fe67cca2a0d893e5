import { StepwellError } from '../../errors.ts';

/** Checks one parameter of an index. */
export function inRange(name: string, value: number, low: number, high: number): number {
  if (Number.isInteger(value) && value >= low && value <= high) return value;
  throw new StepwellError('SW_INVALID_ARGUMENT', `${name} must be ${low}..${high}, not ${value}`);
}

/** The same of a parameter that is a power of two. */
export function powerInRange(name: string, value: number, low: number, high: number): number {
  inRange(name, value, low, high);
  if ((value & (value - 1)) === 0) return value;
  throw new StepwellError('SW_INVALID_ARGUMENT', `${name} must be a power of two, not ${value}`);
}
