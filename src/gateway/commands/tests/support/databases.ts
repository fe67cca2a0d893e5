import { type Rig, startServer } from '../../../tests/support/exchange.ts';
import { type FakeStore, fakeStore, served } from '../../../tests/support/fake-store.ts';

export interface RigWithDatabases extends Rig {
  /** Deletes all keys of all databases. */
  clear(): void;
}

/** A server with as many databases as Redis has. */
export async function startWithDatabases(): Promise<RigWithDatabases> {
  const store = fakeStore();
  const others = new Map<number, FakeStore>();
  const open = (index: number, create: boolean) => {
    if (create && !others.has(index)) others.set(index, fakeStore(store, `db${index}`));
    return others.get(index)?.operations;
  };
  const rig = await startServer({ ...served(store), databases: { count: 16, open } });
  return {
    ...rig,
    store,
    clear() {
      for (const each of [store, ...others.values()]) each.clear();
    },
  };
}
