import type { AsyncStore, Key, Value } from '../api.ts';

/** The calls of a store that end with one result: by name, for drivers that forward them all. */
export const CALL_NAMES = [
  'get',
  'getEntry',
  'has',
  'read',
  'set',
  'insert',
  'update',
  'write',
  'expire',
  'ttl',
  'metadata',
  'compareAndSet',
  'compareAndDelete',
  'delete',
  'take',
  'increment',
  'incrementWithin',
  'swap',
  'append',
  'changeState',
  'copyPage',
  'putCopies',
  'getMany',
  'setMany',
  'deleteMany',
  'scanPage',
  'scanKeys',
  'first',
  'last',
  'count',
  'size',
  'clear',
  'stats',
  'counters',
] as const;

export type CallName = (typeof CALL_NAMES)[number];

/** A store whose calls all go through one method. */
export interface CallForwarder {
  call(name: CallName, args: unknown[]): unknown;
}

/** Gives a class the calls that it lacks, each of which forwards to its `call`. */
export function forwardCalls(forwarder: { prototype: CallForwarder }): void {
  for (const name of CALL_NAMES) {
    if (Object.hasOwn(forwarder.prototype, name)) continue;
    Object.defineProperty(forwarder.prototype, name, {
      value(this: CallForwarder, ...args: unknown[]) {
        return this.call(name, args);
      },
      writable: true,
      configurable: true,
    });
  }
}

/** The calls that `forwardCalls` adds to a store with promises. */
export type PromisedCalls<V> = Pick<AsyncStore<V, Key, Value>, CallName>;
