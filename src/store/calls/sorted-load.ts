import { isOrdered } from '../../indexes/contract.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Key, Value } from '../api.ts';
import { checkEntries, checkEntry, unsupported } from '../arguments.ts';
import { encoded } from '../values.ts';
import type { RecordAccess } from './record-access.ts';

/** The records that the asynchronous `loadSorted` takes. */
export type SortedEntries =
  | Iterable<readonly [Key, unknown]>
  | AsyncIterable<readonly [Key, unknown]>;

/**
 * The call `loadSorted`. Raises SW_UNSUPPORTED for an index without such a load, and for a bounded
 * store, which must count each record; SW_CLOSED if the code that yields the entries closes the
 * store.
 */
export function* loadSorted(
  access: RecordAccess,
  entries: Iterable<readonly [Key, unknown]>,
): Operation<number> {
  const { attachment, bounded, index, settings } = access;
  attachment.refuseClosed();
  access.refuseWrite();
  if (bounded !== undefined) {
    const why = `store ${settings.name} is bounded, and a load in order evicts nothing`;
    throw unsupported(`${why}; use setMany`);
  }
  yield* attachment.enter();
  try {
    checkEntries(entries);
    if (isOrdered(index) && index.load) {
      return yield* index.load(storedEntries(access, entries), access.nextVersion());
    }
    const what = `store ${settings.name} has the index ${index.manifest.name}`;
    throw unsupported(
      `${what}, which cannot be loaded in order; create it with the index chime, or use setMany`,
    );
  } finally {
    attachment.exit();
  }
}

/** Raises SW_INVALID_ARGUMENT if an entry is not a pair. */
function storedEntries(
  access: RecordAccess,
  entries: Iterable<readonly [Key, unknown]>,
): Iterable<readonly [Key, Value]> {
  return {
    [Symbol.iterator]() {
      const source = entries[Symbol.iterator]();
      return {
        next() {
          const step = source.next();
          access.attachment.refuseClosed();
          if (step.done) return step;
          checkEntry(step.value);
          const [key, value] = step.value;
          return {
            done: false,
            value: [access.keyIn(key), encoded(value, access.settings.values)],
          };
        },
        return: (value) => {
          source.return?.(value);
          return { done: true, value };
        },
      };
    },
  };
}

/** The items as a synchronous iterable: a load is one operation and cannot await promises. */
export async function gathered<T>(items: Iterable<T> | AsyncIterable<T>): Promise<Iterable<T>> {
  checkEntries(items);
  if (Symbol.iterator in items) return items;
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
