import type { Store } from '../../../store/api.ts';
import type { SharedStore } from '../../../store/local/shared-store.ts';
import { openServedSync } from '../../../store/open.ts';
import type { GatewayPool, GatewayStore } from '../../gateway-store.ts';
import type { GatewayOptions } from '../../server.ts';

/** A store in memory; what the gateway calls is counted, and can be made to fail. */
export interface FakeStore extends Store<Uint8Array> {
  readonly operations: GatewayStore;
  readonly pool: GatewayPool;
  readonly calls: Record<string, number>;
  /** Raised by the next call of the gateway, once. */
  failure: unknown;
}

/** With a name: another store in the same pool. */
export function fakeStore(beside?: FakeStore, name = 'default'): FakeStore {
  const store = openServedSync(beside?.handle ?? 'memory:', {
    store: name,
    create: true,
    values: 'bytes',
    maxClients: 2,
  });
  const own = { calls: {} as Record<string, number>, failure: undefined as unknown };
  const operations = new Proxy(store.operations, {
    get(target, name: string) {
      const found = target[name as keyof typeof target] as unknown;
      if (typeof found !== 'function') return found;
      return (...given: unknown[]) => {
        own.calls[name] = (own.calls[name] ?? 0) + 1;
        const { failure } = own;
        own.failure = undefined;
        if (failure !== undefined) throw failure;
        return found.apply(target, given);
      };
    },
  });
  return new Proxy(Object.assign(own, { operations }), {
    get(target, name) {
      if (Object.hasOwn(target, name)) return Reflect.get(target, name);
      const found: unknown = Reflect.get(store, name, store);
      return typeof found === 'function' ? found.bind(store) : found;
    },
  }) as object as FakeStore;
}

/** What the gateway is told of a store. */
export function served(store: Store<Uint8Array>): Pick<GatewayOptions, 'pool' | 'store'> {
  const { operations, pool } = store as SharedStore<Uint8Array>;
  return { store: operations, pool };
}
