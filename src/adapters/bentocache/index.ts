import type { CreateDriverResult, L2CacheDriver } from 'bentocache/types';
import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore } from '../../store/api.ts';
import { checkOptions } from '../../store/arguments.ts';
import { spaceOf } from '../space.ts';

/** Options of `stepwellDriver`. */
export interface StepwellDriverOptions {
  /** Any store or namespace; it stays the caller's to close. */
  store: AnyStore;
  /** In front of each key. Default: that of Bentocache, which is `bentocache`. */
  prefix?: string;
}

/**
 * A driver of Bentocache: `bentostore().useL2Layer(stepwellDriver({ store }))`. A read takes
 * microseconds, so no layer in front of it is needed, nor a bus that invalidates one.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
 */
export function stepwellDriver(options: StepwellDriverOptions): CreateDriverResult<StepwellDriver> {
  checkOptions(options, ['store', 'prefix']);
  return { options, factory: (config) => new StepwellDriver(config) };
}

/** What Bentocache makes of `stepwellDriver`. */
export class StepwellDriver implements L2CacheDriver {
  readonly type = 'l2';
  readonly #store: AnyStore;
  readonly #path: string;
  readonly #items: AsyncStore;

  constructor({ store, prefix = '' }: StepwellDriverOptions) {
    // As in Bentocache's own drivers, which put one colon behind a prefix.
    const name = prefix.replace(/:+$/, '');
    this.#store = store;
    this.#path = name && `${name}:`;
    this.#items = spaceOf<string | Uint8Array>(store, this.#path, { values: 'utf8' });
  }

  namespace(namespace: string): StepwellDriver {
    return new StepwellDriver({ store: this.#store, prefix: this.#path + namespace });
  }

  async get(key: string): Promise<string | undefined> {
    return (await this.#items.get(key)) as string | undefined;
  }

  async pull(key: string): Promise<string | undefined> {
    return (await this.#items.take(key)) as string | undefined;
  }

  /** `ttl` in milliseconds; without it the item lives for ever. */
  async set(key: string, value: string, ttl?: number): Promise<boolean> {
    await this.#items.set(key, value, { ttlMs: ttl || Number.POSITIVE_INFINITY });
    return true;
  }

  async clear(): Promise<void> {
    await this.#items.clear();
  }

  delete(key: string): Promise<boolean> {
    return this.#items.delete(key);
  }

  async deleteMany(keys: string[]): Promise<boolean> {
    await this.#items.deleteMany(keys);
    return true;
  }

  /** Nothing: the store stays the caller's to close. */
  async disconnect(): Promise<void> {}
}
