import type { IndexName, OpenOptions, Store, Value } from '../../src/store/api.ts';
import { destroySync, openSync } from '../../src/store/open.ts';
import { Crew } from './tasks.ts';

/** A store that this process and others have open. */
export interface SharedStore {
  readonly url: string;
  readonly store: Store<Value>;
  readonly crew: Crew;
}

/** Runs `use` on a store that evicts, in a pool of its own, with processes of its own. */
export async function withStore<T>(
  index: IndexName,
  processes: number,
  options: OpenOptions,
  use: (shared: SharedStore) => Promise<T>,
): Promise<T> {
  const crew = new Crew(processes);
  try {
    return await withStoreOf(crew, index, options, use);
  } finally {
    crew.end();
  }
}

/** As `withStore`, with processes that go on to other stores. */
export async function withStoreOf<T>(
  crew: Crew,
  index: IndexName,
  options: OpenOptions,
  use: (shared: SharedStore) => Promise<T>,
): Promise<T> {
  const url = `shm:stepwell-full-pool-${process.pid}`;
  const store = openSync(url, { index, store: 'c', eviction: 'lru', ...options });
  try {
    await crew.open(url);
    return await use({ url, store, crew });
  } finally {
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
