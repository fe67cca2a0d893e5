import type { TestContext } from 'node:test';
import type { AsyncStore, OpenOptions, Value } from '../../../api.ts';
import { open } from '../../../open.ts';
import { inFlight } from '../../../remote/remote-clients.ts';
import { startNodes } from '../../../tests/support/remote.ts';

export const RECORDS = 2048;
export const WRITES = 1024;
const WIDTH = 64;
/** A value of 300 bytes has a block of its own; shorter ones may stand in leaves. */
export const SHORT = 32;
export const LONG = 300;

export interface Counts {
  doorbells: number;
  evictions: number;
}

/** Writes new keys, one number after the other. */
class Writer {
  readonly #store: AsyncStore<Value>;
  readonly #value: string;
  #next = 0;

  constructor(store: AsyncStore<Value>, bytes: number) {
    this.#store = store;
    this.#value = 'v'.repeat(bytes);
  }

  async write(count: number): Promise<void> {
    const keys = Array.from({ length: count }, () => `k${this.#next++}`);
    await inFlight(keys, WIDTH, (key) => this.#store.set(key, this.#value));
  }

  async evictions(): Promise<number> {
    return (await this.#store.stats()).bound?.evictions ?? 0;
  }

  /** Doorbells and evictions of so many writes. */
  async counted(writes: number): Promise<Counts> {
    // Figures of a store take round trips of their own.
    const evicted = await this.evictions();
    const { roundTrips } = { ...(await this.#store.counters()).traffic };
    await this.write(writes);
    const { traffic } = await this.#store.counters();
    const doorbells = (traffic.roundTrips - roundTrips) / writes;
    return { doorbells, evictions: (await this.evictions()) - evicted };
  }
}

export async function writerTo(
  t: TestContext,
  bytes: number,
  options: OpenOptions,
  nodeBytes?: number,
): Promise<Writer> {
  const { url } = await startNodes(t, 1, nodeBytes === undefined ? {} : { bytes: nodeBytes });
  const store = await open(url, { maxClients: 8, ...options });
  t.after(() => store.close());
  return new Writer(store, bytes);
}

/** Doorbells of writes of new keys to a store that holds `RECORDS`. */
export async function counted(
  t: TestContext,
  bytes: number,
  options: OpenOptions,
): Promise<Counts> {
  const writer = await writerTo(t, bytes, options);
  await writer.write(RECORDS + WIDTH);
  return writer.counted(WRITES);
}
