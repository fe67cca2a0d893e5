import { once } from 'node:events';
import { startWorker } from '../../fabrics/start-worker.ts';
import { Prng } from '../../random/prng.ts';
import type { AsyncStore, PoolHandle, Store } from '../../store/api.ts';

export type BenchTask =
  /** Insert this client's share of the records, once. */
  | { operation: 'insert' }
  /** Work on random records for a while. */
  | { operation: 'get' | 'set'; milliseconds: number };

interface Measured {
  operations: number;
  milliseconds: number;
}

export interface BenchClientSetup {
  handle: PoolHandle;
  store: string;
  /** Which of `clients` this is, from 0. */
  client: number;
  clients: number;
  records: number;
  valueSize: number;
}

/** One client of a benchmark, in a thread of its own. */
export interface BenchClient {
  run(task: BenchTask): Promise<Measured>;
  stop(): Promise<void>;
}

export async function startBenchClient(setup: BenchClientSetup): Promise<BenchClient> {
  const worker = startWorker(import.meta.url, 'worker', setup);
  // Listen from the start: a worker that fails exits long before it is stopped.
  const exited = new Promise((resolve) => worker.once('exit', resolve));
  await once(worker, 'message');
  return {
    run: async (task) => {
      worker.postMessage(task);
      const [measured] = await once(worker, 'message');
      return measured;
    },
    stop: async () => {
      worker.postMessage('stop');
      await exited;
    },
  };
}

/** How many keys to cycle through; a power of two, so that the index is a mask. */
const SAMPLE = 1 << 16;
/** Operations between two readings of the clock, which cost about as much as an operation. */
const STRIDE = 256;

export class BenchLoop {
  readonly #store: Store<Uint8Array>;
  readonly #setup: BenchClientSetup;
  readonly #now: () => number;
  readonly #value: Uint8Array;
  /** Keys made in advance: making them is not what is measured. */
  readonly #sample: string[];

  constructor(store: Store<Uint8Array>, setup: BenchClientSetup, now: () => number) {
    this.#store = store;
    this.#setup = setup;
    this.#now = now;
    this.#value = new Uint8Array(setup.valueSize).fill(0x61 + (setup.client % 26));
    this.#sample = sampleKeys(setup);
  }

  run(task: BenchTask): Measured {
    if (task.operation === 'insert') return this.#insert();
    const act = task.operation === 'get' ? this.#get : this.#set;
    const start = this.#now();
    let operations = 0;
    let milliseconds = 0;
    while (milliseconds < task.milliseconds) {
      for (let step = 0; step < STRIDE; step++) {
        act(this.#sample[(operations + step) & (SAMPLE - 1)]);
      }
      operations += STRIDE;
      milliseconds = this.#now() - start;
    }
    return { operations, milliseconds };
  }

  #insert(): Measured {
    const { client, clients, records } = this.#setup;
    const start = this.#now();
    let operations = 0;
    for (let record = client; record < records; record += clients) {
      if (!this.#store.insert(keyOf(record), this.#value)) throw lost(record, 'was there already');
      operations++;
    }
    return { operations, milliseconds: this.#now() - start };
  }

  readonly #get = (key: string): void => {
    const value = this.#store.get(key);
    if (value?.length !== this.#value.length) throw lost(key, 'has not the value set');
  };

  readonly #set = (key: string): void => {
    this.#store.set(key, this.#value);
  };
}

/** A BenchLoop for stores whose calls return promises: one call in flight. */
export class AwaitedBenchLoop {
  readonly #store: AsyncStore<Uint8Array>;
  readonly #setup: BenchClientSetup;
  readonly #now: () => number;
  readonly #value: Uint8Array;
  readonly #sample: string[];

  constructor(store: AsyncStore<Uint8Array>, setup: BenchClientSetup, now: () => number) {
    this.#store = store;
    this.#setup = setup;
    this.#now = now;
    this.#value = new Uint8Array(setup.valueSize).fill(0x61 + (setup.client % 26));
    this.#sample = sampleKeys(setup);
  }

  async run(task: BenchTask): Promise<Measured> {
    if (task.operation === 'insert') return this.#insert();
    const start = this.#now();
    let operations = 0;
    let milliseconds = 0;
    while (milliseconds < task.milliseconds) {
      const key = this.#sample[operations++ & (SAMPLE - 1)];
      if (task.operation === 'set') {
        await this.#store.set(key, this.#value);
      } else if ((await this.#store.get(key))?.length !== this.#value.length) {
        throw lost(key, 'has not the value set');
      }
      milliseconds = this.#now() - start;
    }
    return { operations, milliseconds };
  }

  async #insert(): Promise<Measured> {
    const { client, clients, records } = this.#setup;
    const start = this.#now();
    let operations = 0;
    for (let record = client; record < records; record += clients) {
      const inserted = await this.#store.insert(keyOf(record), this.#value);
      if (!inserted) throw lost(record, 'was there already');
      operations++;
    }
    return { operations, milliseconds: this.#now() - start };
  }
}

function sampleKeys({ client, records }: BenchClientSetup): string[] {
  const random = Prng.fromSeed(client);
  return Array.from({ length: SAMPLE }, () => keyOf(random.below(records)));
}

function keyOf(record: number): string {
  return `bench:${record}`;
}

function lost(key: string | number, what: string): Error {
  return new Error(`benchmark record ${key} ${what}`);
}
