import { inspect } from 'node:util';
import { StepwellError } from '../errors.ts';
import { ALWAYS, type Condition, EXCHANGE, IF_ABSENT, IF_PRESENT } from '../indexes/contract.ts';
import type { BoundedOptions, Key, WriteOptions } from './api.ts';

export function invalid(message: string): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', message);
}

/** A value as it is told of in a message, in one line: one can tell 3 from '3'. */
export function shown(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 100 }).replaceAll(/\s+/g, ' ');
}

/** An object with names, and no array, Map or bytes, of which every option would be left out. */
export function isRecord(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/**
 * Raises SW_INVALID_ARGUMENT: `openSync(url, 'users')` would otherwise open another store, and an
 * option with a mistyped name would be left out.
 */
export function checkOptions(options: unknown, names: readonly string[]): void {
  if (!isRecord(options)) throw invalid(`options are an object, not ${shown(options)}`);
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw invalid(`there is no option ${shown(unknown)}; there is ${names.join(', ')}`);
}

/** The condition that the options of `write` ask for. Raises SW_INVALID_ARGUMENT. */
export function conditionOf(options: WriteOptions): { condition: Condition; previous: boolean } {
  const { when = 'always', previous = false } = options;
  checkFlag('previous', previous);
  const always = previous ? EXCHANGE : ALWAYS;
  const conditions = { always, absent: IF_ABSENT, present: IF_PRESENT } as const;
  if (Object.hasOwn(conditions, when)) return { condition: conditions[when], previous };
  throw invalid(`when is always, absent or present: ${shown(when)}`);
}

/** The version that a record is to have: NaN, which none has, for what is no version. */
export function versionOf(version: unknown): number {
  return typeof version === 'number' && version === version >>> 0 ? version : Number.NaN;
}

/** The option of `scanKeys`. Raises SW_INVALID_ARGUMENT. */
export function prefixIn(options: { prefix?: Key }): Key | undefined {
  checkOptions(options, ['prefix']);
  return options.prefix;
}

/** The option of `getMany`. Raises SW_INVALID_ARGUMENT. */
export function maxBytesIn(options: { maxBytes?: number }): number {
  checkOptions(options, ['maxBytes']);
  const { maxBytes = Number.POSITIVE_INFINITY } = options;
  if (typeof maxBytes === 'number' && maxBytes >= 0) return maxBytes;
  throw invalid(`maxBytes must be 0 or more: ${shown(maxBytes)}`);
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(`${name} is a function, not ${shown(value)}`);
}

/** An option that may be left out. Raises SW_INVALID_ARGUMENT. */
export function checkFlag(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'boolean') return;
  throw invalid(`${name} is true or false: ${shown(value)}`);
}

/** How many `nextMany` is asked for. Raises SW_INVALID_ARGUMENT. */
export function checkBatch(size: number): void {
  if (Number.isSafeInteger(size) && size >= 1) return;
  throw invalid(`nextMany takes 1 or more, not ${shown(size)}`);
}

/** Checks the increment of a counter. Raises SW_INVALID_ARGUMENT. */
export function checkIncrement(by: number | bigint): void {
  if (typeof by === 'bigint' || Number.isSafeInteger(by)) return;
  throw invalid(`increment needs an integer, not ${shown(by)}`);
}

/**
 * The bounds of `incrementWithin`, in the kind of number of the increment: a result of another kind
 * would surprise its caller. Raises SW_INVALID_ARGUMENT.
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

/** Raises SW_INVALID_ARGUMENT: without it a Set, say, would be taken for an empty list. */
export function checkKeys(keys: readonly Key[]): void {
  if (!Array.isArray(keys)) throw new StepwellError('SW_INVALID_ARGUMENT', 'keys are an array');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntries(entries: Iterable<unknown> | AsyncIterable<unknown>): void {
  if (typeof entries === 'object' && entries !== null) {
    if (Symbol.iterator in entries || Symbol.asyncIterator in entries) return;
  }
  throw new StepwellError('SW_INVALID_ARGUMENT', 'entries are pairs of key and value, iterable');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntry(entry: readonly [Key, unknown]): void {
  if (Array.isArray(entry)) return;
  throw new StepwellError('SW_INVALID_ARGUMENT', 'an entry is a pair of key and value');
}
