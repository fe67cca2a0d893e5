import { StepwellError } from '../../../errors.ts';
import { type Index, isOrdered } from '../../../indexes/contract.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { Key, Value } from '../../api.ts';
import { checkEntries, checkEntry } from '../arguments.ts';

/** What `loadSorted` with promises takes. */
export type SortedEntries =
  | Iterable<readonly [Key, unknown]>
  | AsyncIterable<readonly [Key, unknown]>;

/**
 * The operation of `loadSorted`. Raises SW_UNSUPPORTED for an index that has none, and what
 * `refuseClosed` raises when the code that yields the entries has closed the store.
 */
export function sortedLoad(
  index: Index,
  name: string,
  entries: Iterable<readonly [Key, unknown]>,
  version: number,
  refuseClosed: () => void,
  stored: (entry: readonly [Key, unknown]) => readonly [Key, Value],
): Operation<number> {
  checkEntries(entries);
  if (isOrdered(index) && index.load) {
    return index.load(checked(entries, refuseClosed, stored), version);
  }
  const why = `store ${name} has the index ${index.manifest.name}, which cannot be loaded in order`;
  throw new StepwellError(
    'SW_UNSUPPORTED',
    `${why}; create it with the index chime, or use setMany`,
  );
}

/** A bounded store counts each record that comes; a load would pass its bound by. */
export function refusedLoad(name: string): StepwellError {
  const why = `store ${name} is bounded, and a load in order evicts nothing`;
  return new StepwellError('SW_UNSUPPORTED', `${why}; use setMany`);
}

/** Raises SW_INVALID_ARGUMENT when an entry is no pair. */
function checked(
  entries: Iterable<readonly [Key, unknown]>,
  refuseClosed: () => void,
  stored: (entry: readonly [Key, unknown]) => readonly [Key, Value],
): Iterable<readonly [Key, Value]> {
  return {
    [Symbol.iterator]() {
      const source = entries[Symbol.iterator]();
      return {
        next() {
          const step = source.next();
          refuseClosed();
          if (step.done) return step;
          checkEntry(step.value);
          return { done: false, value: stored(step.value) };
        },
        return: (value) => {
          source.return?.(value);
          return { done: true, value };
        },
      };
    },
  };
}

/** What can be gone through at once: a load is one operation, and none waits for a promise. */
export async function gathered<T>(items: Iterable<T> | AsyncIterable<T>): Promise<Iterable<T>> {
  checkEntries(items);
  if (Symbol.iterator in items) return items;
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
