import { StepwellError } from '../../errors.ts';
import type { IndexPicture } from '../../indexes/picture.ts';
import type { ClientFigures, Percentiles } from '../../pool/clients/meter.ts';
import type { ClientLook, PoolLook, StoreLook } from '../administration/look.ts';
import type { OwnClient } from '../administration/tasks.ts';
import type { BoundStats, OpenOptions, PoolHandle } from '../api.ts';
import { ownClient } from '../open.ts';
import type { ClientRates, PoolFigures, Rates, StoreFigures, StoreLoad } from './figures.ts';

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
  #client: Promise<OwnClient> | undefined;
  #meters = new ClientMeters();
  #last: PoolLook | undefined;
  readonly #loads = new Map<string, Measured>();
  #closed = false;

  constructor(place: string | PoolHandle, url: string, options: OpenOptions, client: OwnClient) {
    this.url = url;
    this.#place = place;
    this.#options = options;
    this.#client = Promise.resolve(client);
  }

  /** The present state of the pool, and its clients' operations since the last call. */
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
    return (await this.#attached()).perform('picture', store, partsMax);
  }

  /** If the client fails here, drops it; the next call attaches another one. */
  async #look(): Promise<PoolLook> {
    const client = await this.#attached();
    try {
      return await client.perform('look');
    } catch (error) {
      this.#client = undefined;
      await Promise.resolve()
        .then(() => client.close())
        .catch(() => {});
      throw error;
    }
  }

  #attached(): Promise<OwnClient> {
    if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool is not observed any more');
    if (this.#client === undefined) {
      const client = watchPool(this.#place, this.#options);
      this.#client = client;
      client.catch(() => {
        if (this.#client === client) this.#client = undefined;
      });
    }
    return this.#client;
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#closed = true;
    this.#client = undefined;
    await (await client?.catch(() => undefined))?.close();
  }
}

function loadIn({ records, slots, isExact }: IndexPicture): Measured['load'] {
  return { records, slots, isExact };
}

/**
 * A client of a pool that changes nothing but its own row, to `look` and take a `picture` again and
 * again. On memory nodes their secret for reading is enough. Raises what `open` raises.
 */
export function watchPool(
  url: string | PoolHandle,
  options: Pick<OpenOptions, 'client' | 'secret' | 'tls'> = {},
): Promise<OwnClient> {
  return ownClient(url, { ...options, create: false, readOnly: true });
}

/** A client that has told nothing new for so long does nothing, in milliseconds. */
const IDLE_AFTER_MS = 2500;
/** Beside the time between two looks: how late a client may tell. */
const TOLD_LATE_MS = 1000;

const NOTHING: Rates = {
  reads: 0,
  writes: 0,
  scanned: 0,
  hitRate: null,
  readLatency: null,
  writeLatency: null,
};

interface Seen {
  attachedAt: number;
  /** Undefined as long as the client has told nothing. */
  figures: ClientFigures | undefined;
  /** When this was first seen. */
  at: number;
  rates: Rates;
  /** As in the look. */
  lagsAt: number;
}

/** Rates of clients: what they have told since they last told something. */
export class ClientMeters {
  #seen = new Map<number, Seen>();

  /** The clients of a look, without the one that looks. */
  take(clients: readonly ClientLook[], at: number, before: number) {
    const seen = new Map<number, Seen>();
    const found = clients
      .filter(({ self }) => !self)
      .map((client): ClientRates => {
        const now = this.#next(client, at, before);
        const lags = client.lagsAt !== 0 && this.#seen.get(client.id)?.lagsAt === client.lagsAt;
        seen.set(client.id, { ...now, lagsAt: client.lagsAt });
        const isIdle = at - now.at > IDLE_AFTER_MS;
        const { id, name, pid, network, alive, attachedAt, claimed, waiting } = client;
        const who = { id, name, pid, network, alive, attachedAt, claimed, waiting, lags };
        const toldAgo = now.figures === undefined ? null : Math.max(0, at - now.at);
        return { ...who, toldAgo, ...(isIdle ? NOTHING : now.rates) };
      });
    this.#seen = seen;
    return found;
  }

  #next(client: ClientLook, at: number, before: number): Omit<Seen, 'lagsAt'> {
    const { attachedAt, figures } = client;
    const known = this.#seen.get(client.id);
    const last = known?.attachedAt === attachedAt ? known : undefined;
    if (last !== undefined && last.figures?.toldAt === figures?.toldAt) return last;
    if (figures === undefined) return { attachedAt, figures, at, rates: NOTHING };
    // Figures from before the client was first seen give no rate for now.
    if (last === undefined && attachedAt < before) {
      return { attachedAt, figures, at, rates: NOTHING };
    }
    const told = figures.toldAt - (last?.figures?.toldAt ?? attachedAt);
    // After a pause the whole pause would count.
    const milliseconds = Math.max(1, Math.min(told, at - before + TOLD_LATE_MS));
    const rates = between(last?.figures, figures, milliseconds / 1000);
    return { attachedAt, figures, at, rates };
  }
}

/** Counts are modulo 2^32. */
function between(from: ClientFigures | undefined, to: ClientFigures, seconds: number): Rates {
  const grown = (count: 'reads' | 'misses' | 'writes' | 'scanned') =>
    (to[count] - (from?.[count] ?? 0)) >>> 0;
  return {
    reads: grown('reads') / seconds,
    writes: grown('writes') / seconds,
    scanned: grown('scanned') / seconds,
    hitRate: shareOf(grown('reads') - grown('misses'), grown('reads')),
    readLatency: to.read.p50 === 0 ? null : to.read,
    writeLatency: to.write.p50 === 0 ? null : to.write,
  };
}

function shareOf(part: number, whole: number): number | null {
  return whole > 0 ? Math.max(0, part) / whole : null;
}

/** All of them together. A percentile of all is at most that of the slowest client. */
export function sumOf(clients: readonly Rates[]): Rates {
  const sum = (of: 'reads' | 'writes' | 'scanned') =>
    clients.reduce((all, one) => all + one[of], 0);
  const reads = sum('reads');
  const hits = clients.reduce((all, { reads, hitRate }) => all + reads * (hitRate ?? 0), 0);
  return {
    reads,
    writes: sum('writes'),
    scanned: sum('scanned'),
    hitRate: shareOf(hits, reads),
    readLatency: slowest(clients.filter((one) => one.reads > 0).map((one) => one.readLatency)),
    writeLatency: slowest(clients.filter((one) => one.writes > 0).map((one) => one.writeLatency)),
  };
}

function slowest(all: readonly (Percentiles | null)[]): Percentiles | null {
  const found = all.filter((one) => one !== null);
  if (found.length === 0) return null;
  const most = (of: keyof Percentiles) => Math.max(...found.map((one) => one[of]));
  return { p50: most('p50'), p90: most('p90'), p99: most('p99'), p999: most('p999') };
}

/** A bounded store's evictions and hits since an earlier look. */
export function boundRates(
  from: BoundStats | undefined,
  to: BoundStats,
  milliseconds: number,
): NonNullable<StoreFigures['bound']> {
  const grown = (of: 'evictions' | 'hits' | 'misses') =>
    Math.max(0, to[of] - (from?.[of] ?? to[of]));
  const evictionsPerSecond = (1000 * grown('evictions')) / Math.max(1, milliseconds);
  const hitRate = shareOf(grown('hits'), grown('hits') + grown('misses'));
  return { ...to, evictionsPerSecond, hitRate };
}
