import { StepwellError } from '../../errors.ts';

/** Checks one parameter of an index. */
export function inRange(name: string, value: number, low: number, high: number): number {
  if (Number.isInteger(value) && value >= low && value <= high) return value;
  throw new StepwellError('SW_INVALID_ARGUMENT', `${name} must be ${low}..${high}, not ${value}`);
}

/** The same for a parameter that must be a power of two. */
export function powerInRange(name: string, value: number, low: number, high: number): number {
  inRange(name, value, low, high);
  if ((value & (value - 1)) === 0) return value;
  throw new StepwellError('SW_INVALID_ARGUMENT', `${name} must be a power of two, not ${value}`);
}

/**
 * Techniques that an index can leave out, so that the lab can repeat its paper's analysis step by
 * step. The parameter `without` has a bit for each technique that is left out, for all clients.
 */
export type Techniques<Name extends string> = Record<Name, boolean>;

/** The lab's option for `without`. It is a symbol, so that no user's option can have this name. */
export const WITHOUT: unique symbol = Symbol('without');

export function without<Name extends string>(names: readonly Name[], ...left: Name[]) {
  return { without: left.reduce((mask, name) => mask | (1 << names.indexOf(name)), 0) };
}

export function techniquesOf<Name extends string>(
  names: readonly Name[],
  mask: number,
): Techniques<Name> {
  const entries = names.map((name, i) => [name, ((mask >>> i) & 1) === 0] as const);
  return Object.fromEntries(entries) as Techniques<Name>;
}
