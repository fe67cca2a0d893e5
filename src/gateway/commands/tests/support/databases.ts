import { type Rig, startServer } from '../../../tests/support/exchange.ts';
import { type FakeStore, fakeStore } from '../../../tests/support/fake-store.ts';

export interface RigWithDatabases extends Rig {
  /** Deletes all keys of all databases. */
  clear(): void;
}

/** A server with as many databases as Redis has. */
export async function startWithDatabases(): Promise<RigWithDatabases> {
  const others = new Map<number, FakeStore>();
  const open = (index: number, create: boolean) => {
    if (create && !others.has(index)) others.set(index, fakeStore());
    return others.get(index);
  };
  const rig = await startServer({ databases: { count: 16, open } });
  return {
    ...rig,
    clear() {
      for (const store of [rig.store, ...others.values()]) store.clear();
    },
  };
}
