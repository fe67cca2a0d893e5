import type { AsyncStore, Store, Value } from '../api.ts';

/**
 * A synchronous store behind the names of the asynchronous one, so that each conformance test is
 * written once and runs on both twins. Nothing of the product's own promised store is used.
 */
export function asyncFacade(store: Store<Value>): AsyncStore<Value> {
  const iterate = (iterator: Iterable<unknown>) =>
    (async function* () {
      yield* iterator;
    })();
  return new Proxy(store, {
    get(target, property) {
      if (property === Symbol.asyncIterator) return () => iterate(target);
      if (property === Symbol.asyncDispose) return async () => target[Symbol.dispose]();
      if (property === 'entries' || property === 'keys' || property === 'values') {
        return () => iterate(target[property]());
      }
      if (property === 'size') return async () => target.size;
      const value = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return async (...given: unknown[]) => value.apply(target, given);
    },
  }) as unknown as AsyncStore<Value>;
}
