import type { IndexName, OpenOptions, Store, Value } from '../../src/store/api.ts';
import { destroySync, openSync } from '../../src/store/open.ts';
import { Crew } from './tasks.ts';

/** A store that this process and others have open. */
export interface SharedStore {
  readonly url: string;
  readonly store: Store<Value>;
  readonly crew: Crew;
}

/** Runs `use` on a store that evicts, in a pool of its own. */
export async function withStore<T>(
  index: IndexName,
  processes: number,
  options: OpenOptions,
  use: (shared: SharedStore) => Promise<T>,
): Promise<T> {
  const url = `shm:stepwell-full-pool-${process.pid}`;
  const store = openSync(url, { index, store: 'c', eviction: 'lru', ...options });
  const crew = await Crew.of(processes, url);
  try {
    return await use({ url, store, crew });
  } finally {
    crew.end();
    store.close();
    destroySync(url, { force: true });
  }
}

/** Bounds that no store of this program reaches, because its pool is full first. */
export const UNREACHED = { maxRecords: 2 ** 30 } as const;

export function boundOf({ store }: SharedStore) {
  const { bound } = store.stats();
  if (bound === undefined) throw new Error('the store has no bound');
  return bound;
}
