import { openSync } from '../../../store/open.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** A store in memory whose calls are counted, and one of which can be made to fail. */
export interface FakeStore extends GatewayStore {
  readonly calls: Record<string, number>;
  /** Raised by the next call, once. */
  failure: unknown;
}

export function fakeStore(): FakeStore {
  const store = openSync('memory:', { values: 'bytes', maxClients: 2 });
  const own = { calls: {} as Record<string, number>, failure: undefined as unknown };
  return new Proxy(store, {
    get(_, name: string) {
      if (name in own) return own[name as keyof typeof own];
      const found = store[name as keyof typeof store] as unknown;
      if (typeof found !== 'function') return found;
      return (...given: unknown[]) => {
        own.calls[name] = (own.calls[name] ?? 0) + 1;
        const { failure } = own;
        own.failure = undefined;
        if (failure !== undefined) throw failure;
        return found.apply(store, given);
      };
    },
    set(_, name: string, value) {
      own[name as keyof typeof own] = value;
      return true;
    },
  }) as unknown as FakeStore;
}
