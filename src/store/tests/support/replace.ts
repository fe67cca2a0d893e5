/**
 * Replaces a method; returns what restores it. A mock of node:test would keep each of its calls,
 * with a stack trace: a method that is called for each batch then takes several times as long.
 */
export function replace<T extends object, K extends keyof T>(
  target: T,
  name: K,
  method: T[K],
): () => void {
  const own = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
  return () => {
    if (own === undefined) delete target[name];
    else Object.defineProperty(target, name, own);
  };
}
