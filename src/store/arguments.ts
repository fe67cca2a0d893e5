/** Checks of arguments and options. Each raises SW_INVALID_ARGUMENT. */
import { inspect } from 'node:util';
import { StepwellError } from '../errors.ts';
import { ALWAYS, type Condition, EXCHANGE, IF_ABSENT, IF_PRESENT } from '../indexes/contract.ts';
import type { BoundedOptions, Key, WriteOptions } from './api.ts';

export function invalid(message: string, options?: ErrorOptions): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', message, options);
}

export function unsupported(message: string, options?: ErrorOptions): StepwellError {
  return new StepwellError('SW_UNSUPPORTED', message, options);
}

/** A value as messages show it: in one line, and 3 differs from '3'. */
export function shown(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 100 }).replaceAll(/\s+/g, ' ');
}

/** Whether it is a plain object: an array, a Map or bytes would have none of the options. */
export function isRecord(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/**
 * Without this check `openSync(url, 'users')` would open another store, and an option with a
 * mistyped name would be ignored.
 */
export function checkOptions(options: unknown, names: readonly string[]): void {
  if (!isRecord(options)) {
    throw invalid(`options are an object with ${names.join(', ')}, not ${shown(options)}`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw invalid(`there is no option ${shown(unknown)}; there is ${names.join(', ')}`);
}

/** The condition that the options of `write` ask for. */
export function conditionOf(options: WriteOptions): { condition: Condition; previous: boolean } {
  const { when = 'always', previous = false } = options;
  checkFlag('previous', previous);
  const always = previous ? EXCHANGE : ALWAYS;
  const conditions = { always, absent: IF_ABSENT, present: IF_PRESENT } as const;
  if (Object.hasOwn(conditions, when)) return { condition: conditions[when], previous };
  throw invalid(`when is always, absent or present: ${shown(when)}`);
}

/** The version, or NaN, which no record has, if it is not a version. */
export function versionOf(version: unknown): number {
  return typeof version === 'number' && version === version >>> 0 ? version : Number.NaN;
}

/** The option of `scanKeys`. */
export function prefixIn(options: { prefix?: Key }): Key | undefined {
  checkOptions(options, ['prefix']);
  return options.prefix;
}

/** The option of `getMany`. */
export function maxBytesIn(options: { maxBytes?: number }): number {
  checkOptions(options, ['maxBytes']);
  const { maxBytes = Number.POSITIVE_INFINITY } = options;
  if (typeof maxBytes === 'number' && maxBytes >= 0) return maxBytes;
  throw invalid(`maxBytes must be 0 or more: ${shown(maxBytes)}`);
}

export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(`${name} is a function, not ${shown(value)}`);
}

/** Checks an option that may be left out. */
export function checkFlag(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'boolean') return;
  throw invalid(`${name} is true or false: ${shown(value)}`);
}

/** Checks the argument of `nextMany`. */
export function checkBatch(size: number): void {
  if (Number.isSafeInteger(size) && size >= 1) return;
  throw invalid(`nextMany takes 1 or more, not ${shown(size)}`);
}

/** Checks the increment of a counter. */
export function checkIncrement(by: number | bigint): void {
  if (typeof by === 'bigint' || Number.isSafeInteger(by)) return;
  throw invalid(`increment needs an integer, not ${shown(by)}`);
}

/**
 * The bounds of `incrementWithin`, which must be the same kind of number as the increment: a result
 * of another kind would surprise the caller.
 */
export function counterBoundsIn(
  { min, max }: BoundedOptions<number | bigint>,
  by: number | bigint,
): { min: bigint | undefined; max: bigint | undefined } {
  const bounds = { min: counterBound('min', min, by), max: counterBound('max', max, by) };
  if (bounds.min === undefined || bounds.max === undefined || bounds.min <= bounds.max) {
    return bounds;
  }
  throw invalid(`no counter is within min ${min} and max ${max}: min is to be the lesser one`);
}

function counterBound(
  name: string,
  bound: number | bigint | undefined,
  by: number | bigint,
): bigint | undefined {
  if (bound === undefined) return undefined;
  const isInteger = typeof bound === 'bigint' || Number.isSafeInteger(bound);
  if (!isInteger) throw invalid(`${name} is an integer, not ${shown(bound)}`);
  if (typeof bound === typeof by) return BigInt(bound);
  const kinds = `${shown(by)} is a ${typeof by} and ${name} ${shown(bound)} a ${typeof bound}`;
  throw invalid(`${kinds}: give both as numbers or both as bigints`);
}

/** Without this check a Set, for example, would count as an empty list. */
export function checkKeys(keys: readonly Key[]): void {
  if (!Array.isArray(keys)) throw invalid('keys are an array');
}

export function checkEntries(entries: Iterable<unknown> | AsyncIterable<unknown>): void {
  if (typeof entries === 'object' && entries !== null) {
    if (Symbol.iterator in entries || Symbol.asyncIterator in entries) return;
  }
  throw invalid('entries are pairs of key and value, iterable');
}

export function checkEntry(entry: readonly [Key, unknown]): void {
  if (Array.isArray(entry)) return;
  throw invalid('an entry is a pair of key and value');
}
