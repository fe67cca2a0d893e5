/** How long HStore is without a server that was killed (the paper's Figure 11). See `--help`. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Store } from '../store/api.ts';
import { destroyPool, openSync } from '../store/open.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import { monotonic } from './support/clock.ts';
import { parseOptions, runLab } from './support/options.ts';
import { table } from './support/text.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 1_000_000, minimum: 1000, help: 'in the store' },
  rounds: { kind: 'integer', fallback: 3, minimum: 1, help: 'each server is killed so often' },
} as const;

/** HStore section 5.5: seconds at 1 M records. */
const PUBLISHED = { hash: 0.98, skiplist: 1.56 } as const;
const MAIN = fileURLToPath(new URL('../cli/main.js', import.meta.url));
const PER_BATCH = 1000;
const GETS = 20_000;

const milliseconds = (since: bigint) => Number(monotonic() - since) / 1e6;

async function startServer(url: string, role: string) {
  const child = spawn(process.execPath, [MAIN, 'index-server', url, '--role', role], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('holds 1 lease')) return child;
  }
  throw new Error(`the server ended: ${text}`);
}

function load(store: Store, records: number): void {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  for (let first = 0; first < records; first += PER_BATCH) {
    const count = Math.min(PER_BATCH, records - first);
    store.putMany(
      Array.from({ length: count }, (_, i) => {
        return [keys.bytes(first + i).slice(), values.buffer(first + i).slice()] as const;
      }),
    );
  }
}

/** Mean time of a GET, which needs no server. */
function getMicroseconds(store: Store, records: number): number {
  const keys = new KeyGenerator();
  const began = monotonic();
  for (let i = 0; i < GETS; i++) store.get(keys.bytes((i * 7919) % records).slice());
  return (1000 * milliseconds(began)) / GETS;
}

async function main(argv: string[]): Promise<void> {
  const options = parseOptions('node build/lab/hstore-recovery.js', SPEC, argv);
  const { records, rounds } = options;
  const url = `shm:hstore-recovery-${process.pid}`;
  const store = openSync(url, { index: 'hstore', size: Math.max(2 ** 28, records * 256) });
  try {
    load(store, records);
    const samples: Record<string, number[]> = {};
    const note = (what: string, value: number) => {
      samples[what] ??= [];
      samples[what].push(value);
    };
    for (let round = 0; round < rounds; round++) {
      const hash = await startServer(url, 'hash');
      store.put('warm', 'up');
      note('GET, both servers up, us', getMicroseconds(store, records));
      let began = monotonic();
      hash.kill('SIGKILL');
      store.put('a', String(round));
      note('hash server killed: until a PUT is answered, ms', milliseconds(began));
      note('GET, hash server gone, us', getMicroseconds(store, records));
      began = monotonic();
      const skiplist = await startServer(url, 'skiplist');
      const client = openSync(url);
      for (const _ of client.scan({ limit: 1 }));
      note('skiplist server started: until it answers a SCAN, ms', milliseconds(began));
      skiplist.kill('SIGKILL');
      note('GET, skiplist server gone, us', getMicroseconds(store, records));
      began = monotonic();
      for (const _ of client.scan({ limit: 1 }));
      note('skiplist built anew from table and records, ms', milliseconds(began));
      client.close();
    }
    const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1];
    const rows = Object.entries(samples).map(([what, values]) => [
      what,
      median(values).toFixed(1),
      values.map((value) => value.toFixed(1)).join(' '),
    ]);
    console.log(`HStore without its servers, ${records} records (Figure 11)\n`);
    console.log(table(['', 'median', 'all'], rows));
    const { hash, skiplist } = PUBLISHED;
    console.log(
      `  The paper rebuilds the hash table in ${hash} s and the skiplist in ${skiplist} s at 1 M:` +
        ' its table is lost with the server, this one lies in the pool.',
    );
  } finally {
    store.close();
    destroyPool(url, { force: true });
  }
}

await runLab(main);
