import type { AsyncStore, Key, Store, Value } from '../../api.ts';
import type { AsyncScan, Scan, ScanOptions } from '../../ordered-api.ts';

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
        return (range?: ScanOptions) =>
          range === undefined
            ? iterate(target[property]())
            : scanFacade<unknown>(target[property](range));
      }
      if (property === 'scan') {
        return (range?: ScanOptions) => scanFacade(target.scan(range));
      }
      if (property === 'namespace') {
        return (...given: Parameters<Store['namespace']>) =>
          asyncFacade(target.namespace(...given));
      }
      // Calls that do not wait take no signal: the twin's are those of the product.
      if (property === 'withSignal') return (one: AbortSignal) => target.async.withSignal(one);
      if (property === 'size') return async () => target.size;
      const value = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return async (...given: unknown[]) => value.apply(target, given);
    },
  }) as unknown as AsyncStore<Value>;
}

function scanFacade<T>(scan: Scan<T>): AsyncScan<T> {
  return {
    next: async () => scan.next(),
    return: async () => scan.return(),
    nextMany: async (size: number) => scan.nextMany(size),
    seek: (key: Key) => scan.seek(key),
    [Symbol.asyncIterator]() {
      return this;
    },
    [Symbol.asyncDispose]: async () => scan[Symbol.dispose](),
  };
}
