import { hasCode } from '../../src/errors.ts';
import type { Store } from '../../src/store/api.ts';

/**
 * A store that retries calls while other workers may be stopped. A worker that is stopped while it
 * holds a lock blocks a leaf, and calls fail with SW_CONTENTION. Such a call has changed nothing,
 * so it is repeated as long as `isAllowed`. Not so `deleteMany`: its answer would lack the keys
 * that the failed call deleted.
 */
export function patientStore(store: Store, isAllowed: () => boolean): Store {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name === 'deleteMany') return value.bind(target);
      return (...given: unknown[]) => untilFree(() => value.apply(target, given), isAllowed);
    },
  });
}

function untilFree<T>(call: () => T, isAllowed: () => boolean): T {
  for (;;) {
    const wasAllowed = isAllowed();
    try {
      return call();
    } catch (error) {
      const isStuck = hasCode(error, 'SW_CONTENTION');
      if (!isStuck || !(wasAllowed || isAllowed())) throw error;
    }
  }
}
