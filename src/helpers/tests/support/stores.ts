import { type TestContext, test } from 'node:test';
import type { AsyncStore, IndexName, OpenOptions } from '../../../store/api.ts';
import { openSync } from '../../../store/open.ts';
import { RemoteClients } from '../../../store/remote/remote-clients.ts';
import { openRemote } from '../../../store/remote/remote-store.ts';
import { attachTo, freshStore, keepOpen, type Scope } from '../../../store/tests/support/pools.ts';
import { openAlone, startNodes } from '../../../store/tests/support/remote.ts';

/** Stores of several clients of one pool. */
export interface Clients {
  s: AsyncStore;
  /** Another client of the same store. */
  attach(options?: OpenOptions): Promise<AsyncStore>;
  /** Another handle of the client of `s`. */
  share(): Promise<AsyncStore>;
}

interface StorePlace {
  readonly name: string;
  readonly index: IndexName;
  readonly remote?: true;
}

/** An index that expires records, one that does not, and a network. */
const PLACES: readonly StorePlace[] = [
  { name: 'race', index: 'race' },
  { name: 'chime', index: 'chime' },
  { name: 'shard on 2 tcp: nodes', index: 'shard', remote: true },
];

const ORDERED: readonly StorePlace[] = [
  { name: 'chime', index: 'chime' },
  { name: 'hstore', index: 'hstore' },
  { name: 'chime on 2 tcp: nodes', index: 'chime', remote: true },
];

type Body = (clients: Clients, t: TestContext) => Promise<void>;

/** Registers a test for each place. */
export function onStores(title: string, body: Body): void {
  onPlaces(PLACES, title, body);
}

/** The same for stores whose keys have an order. */
export function onOrderedStores(title: string, body: Body): void {
  onPlaces(ORDERED, title, body);
}

function onPlaces(places: readonly StorePlace[], title: string, body: Body): void {
  for (const { name, index, remote } of places) {
    test(`${name}: ${title}`, async (t) => {
      await body(remote ? await overNetwork(t, index) : inMemory(t, index), t);
    });
  }
}

export function inMemory(scope: Scope, index: IndexName, options: OpenOptions = {}): Clients {
  const store = freshStore(scope, 'memory', { index, ...options });
  return {
    s: store.async,
    attach: async (more = {}) => attachTo(scope, store, { ...options, ...more }).async,
    share: async () => keepOpen(scope, openSync(store.handle)).async,
  };
}

export async function overNetwork(scope: Scope, index: IndexName): Promise<Clients> {
  const { url } = await startNodes(scope, 2);
  const closing = (store: AsyncStore) => {
    scope.after(() => store.close());
    return store;
  };
  const defaults = { index, maxClients: 16, client: 'test' };
  const clients = new RemoteClients();
  const share = async () => closing(await openRemote(url, defaults, clients));
  return {
    s: await share(),
    attach: async (options = {}) => closing(await openAlone(url, { ...defaults, ...options })),
    share,
  };
}
