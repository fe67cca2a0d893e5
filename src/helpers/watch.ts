import { refuseAborted, unlessAborted } from '../store/abortable.ts';
import type { AsyncStore, Entry, Key } from '../store/api.ts';
import { checkFlag, checkOptions, invalid } from '../store/arguments.ts';
import { Namespace } from '../store/calls/namespace.ts';
import { keyBytes } from '../store/keys.ts';
import { type AnyStore, checkPositive, promised } from './host.ts';
import { pauseFor } from './waiting.ts';

const EVERY_MS = 100;
/** How many records a look reads at a time. */
const PAGE = 256;

/** A key to watch, or a prefix whose keys to watch. */
export type Watched = { key: Key } | { prefix: Key };

/** Options of `watch`. */
export interface WatchOptions {
  /** Milliseconds between two looks. Default 100. */
  everyMs?: number;
  /** Whether the first look reports all records as changes. Default false. */
  initial?: boolean;
  /** Ends the watch: it raises SW_ABORTED. */
  signal?: AbortSignal;
}

/** How a key differs from the look before. */
export type Change<V> =
  | { readonly type: 'set'; readonly key: Key; readonly value: V; readonly version: number }
  | { readonly type: 'delete'; readonly key: Key };

/**
 * The changes of a key or of all keys with a prefix, found by looking again and again at versions.
 * A store pays nothing for being watched, and a watcher that dies leaves nothing behind. For the
 * watcher, a look at a key is a `get`. A look at a prefix reads its keys; on an index without order
 * it reads the whole store.
 *
 * If a key changes several times between two looks, only the last change comes, and none if the key
 * is absent at both. So each key ends up current and its versions come in order, but some values
 * are skipped, and the order of two keys says nothing. A record that expires is deleted. The first
 * look is when the first change is asked for; a loop that takes its time looks less often.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT for what is neither a key nor a prefix, SW_ABORTED, and
 *   what calls of the store throw, such as SW_CLOSED.
 */
export async function* watch<V>(
  store: AnyStore<V>,
  watched: Watched,
  options: WatchOptions = {},
): AsyncGenerator<Change<V>, never, void> {
  checkOptions(options, ['everyMs', 'initial', 'signal']);
  const { everyMs = EVERY_MS, initial = false, signal } = options;
  checkPositive('everyMs', everyMs);
  checkFlag('initial', initial);
  const look = lookerOf(promised(store) as AsyncStore<V>, watched);
  let before: Seen = new Map();
  for (let first = true; ; first = false) {
    refuseAborted('the wait', signal);
    const entries = await unlessAborted('the watch', signal, look);
    const { changes, seen } = compare(before, entries);
    before = seen;
    if (!first || initial) yield* changes;
    await pauseFor(everyMs, signal);
  }
}

/** The versions of the keys that a look has met, by the bytes of the key. */
type Seen = ReadonlyMap<string, { key: Key; version: number }>;

/** The changes since the look before. */
export function compare<V>(
  before: Seen,
  entries: readonly Entry<V>[],
): { changes: Change<V>[]; seen: Seen } {
  const seen = new Map<string, { key: Key; version: number }>();
  const changes: Change<V>[] = [];
  for (const { key, value, version } of entries) {
    const name = Buffer.from(keyBytes(key)).toString('latin1');
    // A walk may meet a key twice.
    if (seen.get(name)?.version === version) continue;
    seen.set(name, { key, version });
    if (before.get(name)?.version !== version) changes.push({ type: 'set', key, value, version });
  }
  for (const [name, { key }] of before) {
    if (!seen.has(name)) changes.push({ type: 'delete', key });
  }
  return { changes, seen };
}

/** Reads what is watched. Raises SW_INVALID_ARGUMENT. */
function lookerOf<V>(store: AsyncStore<V>, watched: Watched): () => Promise<Entry<V>[]> {
  checkOptions(watched, ['key', 'prefix']);
  if ('key' in watched === 'prefix' in watched) throw invalid('watch takes { key } or { prefix }');
  if ('key' in watched) {
    return async () => {
      const entry = await store.getEntry(watched.key);
      return entry === undefined ? [] : [entry];
    };
  }
  const space = store.namespace(watched.prefix);
  const prefix = new Namespace(watched.prefix);
  return async () => {
    const found: Entry<V>[] = [];
    let cursor = 0;
    do {
      const page = await space.scanPage(cursor, PAGE);
      for (const entry of page.entries) found.push({ ...entry, key: prefix.key(entry.key) });
      cursor = page.cursor;
    } while (cursor !== 0);
    return found;
  };
}
