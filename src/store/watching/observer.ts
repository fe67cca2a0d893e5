import { StepwellError } from '../../errors.ts';
import type { IndexPicture } from '../../indexes/picture.ts';
import type { PoolLook, StoreLook } from '../administration/look.ts';
import type { OpenOptions, PoolHandle } from '../api.ts';
import type { PoolFigures, StoreFigures, StoreLoad } from './figures.ts';
import { type PoolWatch, watchPool } from './pool-watch.ts';
import { boundRates, ClientMeters, sumOf } from './rates.ts';

/** How often the load of a store is estimated, and in what part of the time at most. */
const LOAD_EVERY_MS = 5000;
const LOAD_SHARE = 50;
/** Parts of each layer that are read for it. */
const LOAD_PARTS = 64;

interface Measured {
  /** Undefined when the picture failed: of a damaged index, say. */
  load: Omit<StoreLoad, 'ago'> | undefined;
  at: number;
  nextAt: number;
}

/** Attaches to a pool that is there, shown to viewers as `url`; raises what `open` raises. */
export async function observePool(
  place: string | PoolHandle,
  url: string,
  options: Pick<OpenOptions, 'client' | 'secret' | 'tls'> = {},
): Promise<PoolObserver> {
  return new PoolObserver(place, url, options, await watchPool(place, options));
}

/** Observes one pool for as many viewers as there are, and attaches again when it was cut off. */
export class PoolObserver {
  readonly url: string;
  readonly #place: string | PoolHandle;
  readonly #options: OpenOptions;
  /** Undefined when the last one was cut off. */
  #watch: Promise<PoolWatch> | undefined;
  #meters = new ClientMeters();
  #last: PoolLook | undefined;
  readonly #loads = new Map<string, Measured>();
  #closed = false;

  constructor(place: string | PoolHandle, url: string, options: OpenOptions, watch: PoolWatch) {
    this.url = url;
    this.#place = place;
    this.#options = options;
    this.#watch = Promise.resolve(watch);
  }

  /** What is there now, and what was done since the last call. */
  async observe(): Promise<PoolFigures> {
    const look = await this.#look();
    const last = this.#last;
    this.#last = look;
    const before = last?.at ?? look.at;
    const clients = this.#meters.take(look.clients, look.at, before);
    await this.#measureLoads(look.stores);
    return {
      at: look.at,
      url: this.url,
      createdAt: look.createdAt,
      sizeMax: look.sizeMax,
      bytesUsed: look.bytesUsed,
      memory: look.memory,
      clientsMax: look.clientsMax,
      sum: sumOf(clients),
      clients,
      stores: look.stores.map((store) => this.#storeFigures(store, look.at, last)),
    };
  }

  #storeFigures(store: StoreLook, at: number, last: PoolLook | undefined): StoreFigures {
    const { bound } = store;
    const before = last?.stores.find(({ name }) => name === store.name)?.bound;
    const measured = this.#loads.get(store.name);
    return {
      ...store,
      load: measured?.load ? { ...measured.load, ago: Math.max(0, at - measured.at) } : null,
      bound: bound ? boundRates(before, bound, at - (last?.at ?? at)) : null,
    };
  }

  async #measureLoads(stores: readonly StoreLook[]): Promise<void> {
    for (const name of this.#loads.keys()) {
      if (!stores.some((store) => store.name === name)) this.#loads.delete(name);
    }
    for (const { name, state } of stores) {
      const now = Date.now();
      if (state !== 'ready' || now < (this.#loads.get(name)?.nextAt ?? 0)) continue;
      const picture = await this.picture(name, LOAD_PARTS).catch(() => undefined);
      const after = Date.now();
      const nextAt = after + Math.max(LOAD_EVERY_MS, LOAD_SHARE * (after - now));
      this.#loads.set(name, { load: picture && loadIn(picture), at: after, nextAt });
    }
  }

  /** Up to `partsMax` parts of each layer; undefined when there is no such store. */
  async picture(store: string, partsMax: number): Promise<IndexPicture | undefined> {
    return (await this.#attached()).picture(store, partsMax);
  }

  /** A watch that fails here is given up, and the next call attaches anew. */
  async #look(): Promise<PoolLook> {
    const watch = await this.#attached();
    try {
      return await watch.look();
    } catch (error) {
      this.#watch = undefined;
      await watch.close().catch(() => {});
      throw error;
    }
  }

  #attached(): Promise<PoolWatch> {
    if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool is not observed any more');
    if (this.#watch === undefined) {
      const watch = watchPool(this.#place, this.#options);
      this.#watch = watch;
      watch.catch(() => {
        if (this.#watch === watch) this.#watch = undefined;
      });
    }
    return this.#watch;
  }

  async close(): Promise<void> {
    const watch = this.#watch;
    this.#closed = true;
    this.#watch = undefined;
    await (await watch?.catch(() => undefined))?.close();
  }
}

function loadIn({ records, slots, isExact }: IndexPicture): Measured['load'] {
  return { records, slots, isExact };
}
