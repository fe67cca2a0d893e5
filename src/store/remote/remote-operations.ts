import type { Operation } from '../../verbs/index.ts';
import type { Key } from '../api.ts';
import { type CallForwarder, type CallName, forwardCalls } from '../calls/call-names.ts';
import type { StoreCalls } from '../calls/store-calls.ts';
import type { RangeBounds } from '../ordered-api.ts';

export type OperationName = CallName | 'keysIn';

/** The store on memory nodes whose calls these are. */
interface Host {
  readonly name: string;
  within(name: OperationName, args: unknown[]): Operation<unknown>;
}

/** `forwardCalls` adds these. */
export interface RemoteOperations extends Pick<StoreCalls<Uint8Array>, CallName> {}

/**
 * The calls of a store on memory nodes as operations, for programs that are operations themselves:
 * each call runs within its caller's operation, and the next one may find another session.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class RemoteOperations implements CallForwarder {
  readonly #store: Host;

  constructor(store: Host) {
    this.#store = store;
  }

  get name(): string {
    return this.#store.name;
  }

  call(name: CallName, args: unknown[]): Operation<unknown> {
    return this.#store.within(name, args);
  }

  keysIn(bounds: RangeBounds, reverse: boolean, limit: number): Operation<Key[]> {
    return this.#store.within('keysIn', [bounds, reverse, limit]) as Operation<Key[]>;
  }
}

forwardCalls(RemoteOperations);
