import type { AsyncStore, Key, Value } from '../api.ts';
import type { StoreCalls } from './store-calls.ts';

/** Members of `StoreCalls` that `forwardCalls` leaves out; a driver that has one, has its own. */
const OTHERS = ['name', 'newWalk', 'newScan', 'keysIn', 'loadSorted'] as const;

/** The calls of a store that end with one result. */
export type CallName = Exclude<keyof StoreCalls<unknown>, (typeof OTHERS)[number]>;

/** A store whose calls all go through one method. */
export interface CallForwarder {
  call(name: CallName, args: unknown[]): unknown;
}

/** Gives a class the calls that it lacks, each of which forwards to its `call`. */
export function forwardCalls(
  { prototype: forwarder }: { prototype: CallForwarder },
  { prototype: calls }: { prototype: StoreCalls<unknown> },
): void {
  for (const name of Object.getOwnPropertyNames(calls)) {
    if (Object.hasOwn(forwarder, name) || (OTHERS as readonly string[]).includes(name)) continue;
    Object.defineProperty(forwarder, name, {
      value(this: CallForwarder, ...args: unknown[]) {
        return this.call(name as CallName, args);
      },
      writable: true,
      configurable: true,
    });
  }
}

/** The calls that `forwardCalls` adds to a store with promises. */
export type PromisedCalls<V> = Pick<AsyncStore<V, Key, Value>, CallName>;
