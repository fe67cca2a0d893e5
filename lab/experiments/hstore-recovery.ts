/** How long HStore takes to recover from the loss of a server (Figure 11 of its paper). */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { HStoreIndex } from '../../src/indexes/hstore/hstore.ts';
import { segmentBuckets } from '../../src/indexes/hstore/protocol/geometry.ts';
import { loadSegments, readState } from '../../src/indexes/hstore/protocol/pair-state.ts';
import { BUCKET_BYTES } from '../../src/indexes/hstore/protocol/slot.ts';
import { classOfHead } from '../../src/indexes/substrates/record-io.ts';
import { control } from '../../src/pool/control.ts';
import { BLOCK_CURRENT } from '../../src/pool/memory/block-state.ts';
import type { Store } from '../../src/store/api.ts';
import type { LocalClient } from '../../src/store/local/local-client.ts';
import { attach, destroySync, openSync } from '../../src/store/open.ts';
import { Batch, Scratch } from '../../src/verbs/index.ts';
import { Cleanup } from '../support/cleanup.ts';
import { monotonic } from '../support/clock.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { table } from '../support/text.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 1_000_000, minimum: 1000, help: 'in the store' },
  rounds: { kind: 'integer', fallback: 3, minimum: 1, help: 'how often each server is lost' },
} as const;

/** HStore section 5.5: seconds to recover each server, or both, with 1 M records. */
const PUBLISHED = { hash: 0.98, skiplist: 1.56, both: 2.77 } as const;
const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
const PER_BATCH = 128;
const GETS = 20_000;
/** GETs between two checks whether the table has been rebuilt. */
const GETS_PER_LOOK = 50;

const milliseconds = (since: bigint) => Number(monotonic() - since) / 1e6;

/** A server process; `says` waits until it has printed these words. */
class Server {
  readonly #child: ChildProcess;
  #text = '';
  #wake = () => {};

  constructor(url: string, role: string) {
    this.#child = spawn(process.execPath, [MAIN, 'index-server', url, '--role', role], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (chunk) => {
      this.#text += chunk;
      this.#wake();
    });
    this.#child.on('exit', () => this.#wake());
  }

  async says(words: string): Promise<this> {
    while (!this.#text.includes(words)) {
      if (this.#child.exitCode !== null) throw new Error(`the server ended: ${this.#text}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }
}

/** The table's memory, through a client that can overwrite it. */
class TableMemory {
  readonly #client: LocalClient;
  readonly #index: HStoreIndex;

  constructor(url: string) {
    this.#client = attach(url, { create: false }).client;
    const { index } = this.#client.open({ create: false });
    if (!(index instanceof HStoreIndex)) throw new Error('not a store of HStore');
    this.#index = index;
  }

  get #geometry() {
    return this.#index.table.pairs[0].geometry;
  }

  get generation(): number {
    return this.#client.pool.run(readState({ geometry: this.#geometry })).table.generation;
  }

  /** Simulates a memory node that restarts with empty memory. */
  lose(): void {
    const { pool } = this.#client;
    pool.run(loadSegments(this.#geometry));
    const nothing = new Uint8Array(segmentBuckets(this.#geometry.buckets) * BUCKET_BYTES);
    for (const segment of this.#geometry.segments) {
      pool.run(control.writeBytes(segment, nothing));
    }
  }

  /**
   * Loads many records quickly: writes them, marks them as current, and empties the table, so that
   * a server builds it from the records. (10 M PUTs would take longer than the whole measurement.)
   */
  load(records: number): void {
    const { pool } = this.#client;
    const keys = new KeyGenerator();
    const values = new ValueGenerator();
    const requests = Array.from({ length: PER_BATCH }, () => this.#index.newRequest());
    const mark = new Scratch(8);
    mark.u8[0] = BLOCK_CURRENT;
    const batch = new Batch();
    for (let first = 0; first < records; first += PER_BATCH) {
      batch.clear();
      for (let i = 0; i < Math.min(PER_BATCH, records - first); i++) {
        const request = requests[i];
        const { records: io, table } = this.#index;
        request.record.forgetBlock();
        io.encode(request, keys.bytes(first + i), values.buffer(first + i), 1);
        pool.run(io.allocate(request));
        io.post(request, batch);
        const units = classOfHead(request.record.headUnits);
        batch.write(table.pool.allocator.stateByteOf(request.record.block, units), 1, mark, 0);
      }
      pool.fabric.execute(batch);
    }
    for (const request of requests) request.record.forgetBlock();
    this.lose();
  }

  close(): void {
    this.#client.end();
  }
}

/** Mean time of a GET, which needs no server. */
function getMicroseconds(store: Store, records: number): number {
  const keys = new KeyGenerator();
  const began = monotonic();
  for (let i = 0; i < GETS; i++) store.get(keys.bytes((i * 7919) % records).slice());
  return (1000 * milliseconds(began)) / GETS;
}

/** Mean time of a GET until the table has been rebuilt, and how many GETs ran until then. */
async function degradedGets(
  store: Store,
  records: number,
  memory: TableMemory,
  generation: number,
) {
  const keys = new KeyGenerator();
  const began = monotonic();
  let gets = 0;
  while (memory.generation === generation) {
    for (let i = 0; i < GETS_PER_LOOK; i++) {
      store.get(keys.bytes((gets++ * 7919) % records).slice());
    }
    // Let the event loop handle signals.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { gets, microseconds: (1000 * milliseconds(began)) / gets };
}

function firstKey(store: Store): void {
  for (const _ of store.scan({ limit: 1 })) return;
}

interface Setting {
  url: string;
  store: Store;
  records: number;
  cleanup: Cleanup;
}

async function measure(
  { url, store, records, cleanup }: Setting,
  note: (what: string, value: number) => void,
): Promise<void> {
  const memory = new TableMemory(url);
  const servers: Server[] = [];
  const start = async (role: string, until: string) => {
    const server = new Server(url, role);
    servers.push(server);
    cleanup.add(() => server.kill());
    return server.says(until);
  };
  try {
    const hash = await start('hash', 'holds');
    const skiplist = await start('skiplist', 'holds');
    firstKey(store);
    note('GET, both servers up, us', getMicroseconds(store, records));

    // Lose the hash server and its table.
    const generation = memory.generation;
    let began = monotonic();
    await hash.kill();
    memory.lose();
    const { gets, microseconds } = await degradedGets(store, records, memory, generation);
    store.set('a', 'hash');
    note('hash server lost: until a PUT is answered, ms', milliseconds(began));
    note('GET meanwhile, by the skiplist server, us', microseconds);
    note('GETs meanwhile', gets);

    // Lose the skiplist server. Another one stands by, so that starting a process is not part of
    // the time. It says that it holds the lease once it has built its skiplist.
    const next = await start('skiplist', 'standing by');
    began = monotonic();
    await skiplist.kill();
    await next.says('holds');
    firstKey(store);
    note('skiplist server lost: until a SCAN is answered, ms', milliseconds(began));
    const hashAgain = await start('hash', 'holds');
    await next.kill();
    note('GET, skiplist server gone, us', getMicroseconds(store, records));

    // Lose both and the table: only the records are left.
    const again = await start('skiplist', 'holds');
    const last = await start('skiplist', 'standing by');
    began = monotonic();
    await hashAgain.kill();
    await again.kill();
    memory.lose();
    await last.says('holds');
    firstKey(store);
    store.set('a', 'both');
    note('both lost: until SCAN and PUT are answered, ms', milliseconds(began));
  } finally {
    for (const server of servers) await server.kill();
    memory.close();
  }
}

/** A store with its records, without servers. */
function prepare(cleanup: Cleanup, records: number): Setting {
  const url = `shm:hstore-recovery-${process.pid}`;
  const store = openSync(url, { index: 'hstore', size: Math.max(2 ** 28, records * 400) });
  cleanup.add(() => {
    store.close();
    destroySync(url, { force: true });
  });
  const began = monotonic();
  const loader = new TableMemory(url);
  loader.load(records);
  loader.close();
  const present = store.size;
  if (present !== records) throw new Error(`${present} records were loaded, not ${records}`);
  console.log(`loaded in ${(milliseconds(began) / 1000).toFixed(0)} s`);
  return { url, store, records, cleanup };
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab hstore-recovery', SPEC, argv);
  const { records, rounds } = options;
  const samples: Record<string, number[]> = {};
  const cleanup = new Cleanup();
  try {
    const setting = prepare(cleanup, records);
    for (let round = 0; round < rounds; round++) {
      await measure(setting, (what, value) => {
        samples[what] ??= [];
        samples[what].push(value);
      });
    }
  } catch (error) {
    if (cleanup.interrupted) return;
    throw error;
  } finally {
    await cleanup.run();
  }
  const rows = Object.entries(samples).map(([what, values]) => [
    what,
    median(values).toFixed(1),
    values.map((value) => value.toFixed(1)).join(' '),
  ]);
  console.log(`HStore without its servers, ${records} records (Figure 11)\n`);
  console.log(table(['', 'median', 'all'], rows));
  const of = (what: string) =>
    median(samples[Object.keys(samples).find((k) => k.startsWith(what)) ?? '']);
  const ratio = (what: string) => (of(what) / of('hash server lost')).toFixed(2);
  const { hash, skiplist, both } = PUBLISHED;
  console.log(
    `  Times to that of the hash server: skiplist ${ratio('skiplist server lost')}, both ` +
      `${ratio('both lost')}; the paper at 1 M: ${(skiplist / hash).toFixed(2)}, ` +
      `${(both / hash).toFixed(2)} (${hash}, ${skiplist} and ${both} s).`,
  );
}
