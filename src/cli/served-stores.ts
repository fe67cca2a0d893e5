import { hasCode } from '../errors.ts';
import type { GatewayOptions } from '../gateway/server.ts';
import type { OpenOptions } from '../store/api.ts';
import { isRemote } from '../store/remote/address.ts';
import type { Library } from './context.ts';

type Served = Awaited<ReturnType<Library['openServed']>>;

/**
 * The stores that `stepwell serve` opens: the one that it was asked for, which is database 0, and
 * beside it `NAME.db1` and so on and `NAME.messages`. In a pool on this machine they are opened
 * when a client first needs them. Over a network opening takes time, so that all are opened first.
 */
export class ServedStores {
  readonly first: Served;
  readonly #library: Library;
  readonly #name: string;
  readonly #options: OpenOptions;
  readonly #open = new Map<string, Served>();
  readonly #isRemote: boolean;

  private constructor(first: Served, library: Library, url: string, options: OpenOptions) {
    this.first = first;
    this.#library = library;
    this.#name = options.store ?? 'default';
    this.#options = { client: options.client ?? '' };
    this.#isRemote = isRemote(url);
  }

  /** `databases` is how many there are with the first one. */
  static async open(
    library: Library,
    url: string,
    { databases, ...options }: OpenOptions & { databases: number },
  ): Promise<ServedStores> {
    const first = await library.openServed(url, { ...options, create: true, values: 'bytes' });
    const stores = new ServedStores(first, library, url, options);
    if (stores.#isRemote) await stores.#openAll(url, databases);
    return stores;
  }

  /** What the gateway is told of these stores. */
  gatewayOptions(
    databases: number,
  ): Pick<GatewayOptions, 'databases' | 'messages' | 'pool' | 'store'> {
    return {
      store: this.first.operations,
      pool: this.first.pool,
      databases: {
        count: databases,
        open: (index, create) => this.#find(`${this.#name}.db${index}`, create)?.operations,
      },
      messages: (create) => this.#find(`${this.#name}.messages`, create)?.operations,
    };
  }

  async close(): Promise<void> {
    for (const store of [...this.#open.values(), this.first]) await store.close();
  }

  #find(store: string, create: boolean): Served | undefined {
    const found = this.#open.get(store);
    if (found !== undefined || this.#isRemote) return found;
    const options = { ...this.#options, store, create, values: 'bytes' } as const;
    try {
      const opened = this.#library.openServedSync(this.first.handle, options);
      this.#open.set(store, opened);
      return opened;
    } catch (error) {
      if (!create && hasCode(error, 'SW_STORE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async #openAll(url: string, databases: number): Promise<void> {
    const names = Array.from({ length: databases - 1 }, (_, i) => `${this.#name}.db${i + 1}`);
    try {
      for (const store of [...names, `${this.#name}.messages`]) {
        const options = { ...this.#options, store, create: true, values: 'bytes' } as const;
        this.#open.set(store, await this.#library.openServed(url, options));
      }
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}
