import type { KeyvEntry, KeyvStoreAdapter, StoredData } from 'keyv';
import { type AnyStore, promised } from '../../helpers/host.ts';
import type { AsyncStore } from '../../store/api.ts';
import { textOf } from '../space.ts';

/**
 * A store as a storage adapter of Keyv: `new Keyv({ store: new StepwellKeyv(store) })`.
 *
 * Keyv puts its namespace in front of each key and turns each value into text, which every store
 * takes. With `serialize: undefined, deserialize: undefined` it hands over objects instead, for a
 * store whose option `values` takes them. Records expire in the store itself.
 */
export class StepwellKeyv implements KeyvStoreAdapter {
  /** Keyv offers an iterator only for dialects that it knows. */
  readonly opts: { url: string; dialect: string };
  /** Set by Keyv; `clear` and `iterator` keep to it. So each Keyv has an adapter of its own. */
  namespace?: string;
  readonly #store: AsyncStore;

  /**
   * @param store Any store or namespace; it stays the caller's to close.
   * @throws StepwellError SW_INVALID_ARGUMENT if it is not a store.
   */
  constructor(store: AnyStore) {
    this.#store = promised(store);
    this.opts = { url: this.#store.url, dialect: 'redis' };
  }

  /** Every failure is a rejected promise; there are no events. */
  on(_event: string, _listener: (...args: unknown[]) => void): this {
    return this;
  }

  async get<V>(key: string): Promise<StoredData<V> | undefined> {
    return (await this.#store.get(key)) as StoredData<V> | undefined;
  }

  async getMany<V>(keys: string[]): Promise<StoredData<V | undefined>[]> {
    return (await this.#store.getMany(keys)) as StoredData<V | undefined>[];
  }

  /** `ttl` is in milliseconds; the default is the store's. */
  async set(key: string, value: unknown, ttl?: number): Promise<true> {
    await this.#store.set(key, value as string, ttl ? { ttlMs: ttl } : undefined);
    return true;
  }

  /** Sets each entry separately: if one fails, others may still be stored. */
  async setMany(entries: KeyvEntry[]): Promise<void> {
    await Promise.all(entries.map(({ key, value, ttl }) => this.set(key, value, ttl)));
  }

  has(key: string): Promise<boolean> {
    return this.#store.has(key);
  }

  hasMany(keys: string[]): Promise<boolean[]> {
    return Promise.all(keys.map((key) => this.#store.has(key)));
  }

  delete(key: string): Promise<boolean> {
    return this.#store.delete(key);
  }

  /** Returns whether any of the keys was present. */
  async deleteMany(keys: string[]): Promise<boolean> {
    return (await this.#store.deleteMany(keys)) > 0;
  }

  /** Removes the records of Keyv's namespace; without a namespace, the whole store. */
  async clear(): Promise<void> {
    const { namespace } = this;
    await (namespace ? this.#store.namespace(`${namespace}:`) : this.#store).clear();
  }

  /** The records of Keyv's namespace, by their keys in the store. */
  async *iterator<V>(
    namespace: string | undefined = this.namespace,
  ): AsyncGenerator<(string | Awaited<V> | undefined)[], void> {
    const prefix = namespace ? `${namespace}:` : '';
    for await (const [key, value] of this.#store.namespace(prefix)) {
      yield [`${prefix}${textOf(key)}`, value as Awaited<V>];
    }
  }
}
