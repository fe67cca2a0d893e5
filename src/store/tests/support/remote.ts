import { MemorySource } from '../../../fabrics/shared/memory-source.ts';
import { NodeMemory } from '../../../fabrics/tcp/node/node-memory.ts';
import { type NodeOptions, NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import type { AsyncStore, Key, OpenOptions, Value } from '../../api.ts';
import type { AsyncScan, ScanOptions } from '../../ordered-api.ts';
import { RemoteClients } from '../../remote/remote-clients.ts';
import { openRemote } from '../../remote/remote-store.ts';
import { endAfter, type Scope } from './pools.ts';

const NODE_BYTES = 64 * 2 ** 20;

export interface Nodes {
  servers: NodeServer[];
  url: string;
}

/** Memory nodes in this process. */
export async function startNodes(
  scope: Scope,
  count = 1,
  options: Partial<NodeOptions> & { bytes?: number; regionBytes?: number } = {},
): Promise<Nodes> {
  const { bytes = NODE_BYTES, regionBytes = bytes, ...rest } = options;
  const regions = bytes / regionBytes;
  const starting = Array.from({ length: count }, () => {
    const memory = new NodeMemory(
      MemorySource.allocate(regions, regionBytes),
      regions,
      regionBytes,
    );
    return NodeServer.listen({ memory, host: '127.0.0.1', port: 0, ...rest });
  });
  const servers = await Promise.all(starting);
  endAfter(scope, [...servers], async (open) => {
    await Promise.all(open.map((server) => server.close()));
  });
  return { servers, url: `tcp://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}` };
}

/**
 * A store that is being opened, behind the names of one that is open: the conformance suite opens
 * stores without waiting.
 */
export function deferredStore(
  opening: Promise<AsyncStore<Value>>,
  known: { name: string; url(): string },
): AsyncStore<Value> {
  let opened: AsyncStore<Value> | undefined;
  opening.then(
    (store) => {
      opened = store;
    },
    () => {},
  );
  const iterate = (property: 'entries' | 'keys' | 'values') =>
    async function* () {
      yield* (await opening)[property]() as AsyncIterable<unknown>;
    };
  const walk = (property: 'entries' | 'keys' | 'values') => (range?: ScanOptions) => {
    if (range === undefined) return iterate(property)();
    if (opened) return opened[property](range);
    return deferredScan(async () => (await opening)[property](range) as AsyncScan<unknown>);
  };
  const target = {
    get name() {
      return known.name;
    },
    get url() {
      return known.url();
    },
    get handle() {
      return known.url();
    },
    entries: walk('entries'),
    keys: walk('keys'),
    values: walk('values'),
    [Symbol.asyncIterator]: iterate('entries'),
    scan(range?: ScanOptions) {
      return opened ? opened.scan(range) : deferredScan(async () => (await opening).scan(range));
    },
  };
  return new Proxy(target, {
    get(given, property) {
      if (property in given) return Reflect.get(given, property);
      if (property === 'namespace') {
        return (...words: Parameters<AsyncStore['namespace']>) =>
          deferredStore(
            opening.then((store) => store.namespace(...words)),
            known,
          );
      }
      if (property === 'withSignal') {
        return (signal: AbortSignal) =>
          deferredStore(
            opening.then((store) => store.withSignal(signal)),
            known,
          );
      }
      return async (...words: unknown[]) => {
        const store = (await opening) as unknown as Record<
          PropertyKey,
          (...w: unknown[]) => unknown
        >;
        return store[property](...words);
      };
    },
  }) as unknown as AsyncStore<Value>;
}

function deferredScan<T>(begin: () => Promise<AsyncScan<T>>): AsyncScan<T> {
  let scan: Promise<AsyncScan<T>> | undefined;
  const begun = () => {
    scan ??= begin();
    return scan;
  };
  // At once, as an open store does: what is wrong with a range is found when it is asked for.
  begun().catch(() => {});
  let sought: Promise<void> = Promise.resolve();
  return {
    next: async () => {
      await sought;
      return (await begun()).next();
    },
    nextMany: async (size) => {
      await sought;
      return (await begun()).nextMany(size);
    },
    seek: (key: Key) => {
      sought = begun().then((one) => one.seek(key));
      sought.catch(() => {});
    },
    return: async () => (await begun()).return(),
    [Symbol.asyncIterator]() {
      return this;
    },
    [Symbol.asyncDispose]: async () => (await begun())[Symbol.asyncDispose](),
  };
}

/** Opens a store with a client of its own, whatever else this thread has open. */
export function openAlone(url: string, options: OpenOptions = {}): Promise<AsyncStore<Value>> {
  return openRemote(url, options, new RemoteClients());
}

/** Opens stores for the conformance suite. */
export function remoteOpener(
  index: OpenOptions['index'],
  nodeCount: number,
  start: (scope: Scope, count: number) => Promise<Pick<Nodes, 'url'>> = startNodes,
) {
  const nodes = new WeakMap<AsyncStore<Value>, Promise<Pick<Nodes, 'url'>>>();
  const openings = new WeakMap<AsyncStore<Value>, Promise<unknown>>();
  return (scope: Scope, options: OpenOptions = {}, first?: AsyncStore<Value>) => {
    const starting = (first && nodes.get(first)) ?? start(scope, nodeCount);
    // A store that says no index must not be the one that creates it.
    const before = (first && openings.get(first)) ?? starting;
    let url = 'tcp:';
    const opening = before.then(async () => {
      url = (await starting).url;
      const kind = first === undefined ? { index } : {};
      return openAlone(url, { client: 'test', maxClients: 16, ...kind, ...options });
    });
    const name = options.store ?? first?.name ?? 'default';
    const store = deferredStore(opening, { name, url: () => url });
    nodes.set(store, starting);
    openings.set(store, opening);
    endAfter(scope, opening, (one) => one.then((open) => open.close()).catch(() => {}));
    return store;
  };
}
