import { hasCode } from '../../src/errors.ts';
import type { Store } from '../../src/store/api.ts';

/**
 * The store of an index with locks, for a worker that shares it with others that are stopped: one
 * that was stopped under a lock blocks a leaf, and calls end with SW_CONTENTION. Nothing has
 * happened then, so they are made again, as long as `isAllowed`. `deleteMany` is not: what it has
 * deleted before would be missing from its answer.
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
