/**
 * Round trips and verbs of each operation without conflicts, as the client's own counters see it.
 */
import { writeFileSync } from 'node:fs';
import type { Store, Traffic } from '../store/api.ts';
import { openSync } from '../store/open.ts';
import { KeyGenerator, Permutation, ValueGenerator } from '../workloads/index.ts';
import { describeMachine } from './support/machine.ts';
import { parseOptions, runLab } from './support/options.ts';
import { figure, percent, table } from './support/text.ts';
import { perOperation, TrafficMeter } from './support/traffic-meter.ts';

const SPEC = {
  operations: {
    kind: 'integer',
    fallback: 10_000,
    minimum: 10,
    help: 'of each kind, for the mean',
  },
  single: { kind: 'integer', fallback: 500, minimum: 10, help: 'of each kind, counted one by one' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the order of keys' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const KINDS = ['search', 'insert', 'update', 'delete'] as const;
type Kind = (typeof KINDS)[number];

/** RACE, section 3.3 and Figure 7. */
const PUBLISHED: Record<Kind, number> = { search: 2, insert: 3, update: 3, delete: 3 };

/** Sparse enough that no bucket fills up, dense enough that buckets are shared. */
const LOAD_FACTOR = 0.25;
const SLOTS_PER_GROUP = 21;
const SUBTABLES = 4;

interface Row {
  kind: Kind;
  published: number;
  /** How many single operations took so many round trips. */
  singles: Record<number, number>;
  mean: Traffic;
}

async function main(argv: string[]): Promise<void> {
  const options = parseOptions('node --import tsx src/lab/round-trips.ts', SPEC, argv);
  const { operations, single, seed } = options;
  const means = inStore(operations, (store) =>
    inTurn(store, operations, seed, (step) => {
      const meter = new TrafficMeter(store);
      for (let i = 0; i < operations; i++) step(i);
      return perOperation([meter.read()], operations);
    }),
  );
  const singles = inStore(single, (store) =>
    inTurn(store, single, seed, (step) => countSingles(store, single, step)),
  );
  const rows = KINDS.map((kind): Row => {
    return { kind, published: PUBLISHED[kind], singles: singles[kind], mean: means[kind] };
  });
  report(rows, operations, single);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), rows };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
  if (!rows.every(isAsPublished)) process.exitCode = 1;
}

/** A table sized for twice `count` records, half of them there before the clock starts. */
function inStore<T>(count: number, measure: (store: Store<Uint8Array>) => T): T {
  const slots = (2 * count) / LOAD_FACTOR;
  const groups = Math.max(64, 2 ** Math.ceil(Math.log2(slots / SLOTS_PER_GROUP / SUBTABLES)));
  const race = { groups, initialDepth: Math.log2(SUBTABLES), maxDepth: 8 };
  const size = 2 ** Math.ceil(Math.log2(64 * 2 ** 20 + 1024 * count));
  const store = openSync<Uint8Array>('memory:', { race, values: 'bytes', size });
  try {
    const keys = new KeyGenerator();
    const values = new ValueGenerator();
    for (let i = count; i < 2 * count; i++) store.put(keys.bytes(i), values.buffer(i));
    const result = measure(store);
    if (store.stats().resizes.splits > 0) throw new Error('the table was split meanwhile');
    return result;
  } finally {
    store.close();
  }
}

/** Gives each kind every key once, in an order in which each finds what it needs. */
function inTurn<T>(
  store: Store<Uint8Array>,
  count: number,
  seed: number,
  measure: (step: (index: number) => void) => T,
): Record<Kind, T> {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const order = new Permutation(count, seed);
  const must = (done: boolean) => {
    if (!done) throw new Error('an operation did not find the key as it should be');
  };
  const key = (index: number) => keys.bytes(order.at(index));
  const insert = measure((i) => must(store.insert(key(i), values.buffer(i))));
  const search = measure((i) => must(store.get(key(i)) !== undefined));
  const update = measure((i) => must(store.update(key(i), values.buffer(i, 1))));
  const remove = measure((i) => must(store.delete(key(i))));
  return { search, insert, update, delete: remove };
}

function countSingles(store: Store<Uint8Array>, count: number, step: (index: number) => void) {
  const meter = new TrafficMeter(store);
  const counts: Record<number, number> = {};
  for (let i = 0; i < count; i++) {
    step(i);
    const { roundTrips } = meter.read();
    counts[roundTrips] = (counts[roundTrips] ?? 0) + 1;
  }
  return counts;
}

/** The published number is the fewest round trips seen, and nearly all operations take it. */
function isAsPublished({ singles, published }: Row): boolean {
  const fewest = Math.min(...Object.keys(singles).map(Number));
  return fewest === published && share(singles, published) > 0.9;
}

function share(singles: Record<number, number>, roundTrips: number): number {
  const all = Object.values(singles).reduce((sum, count) => sum + count, 0);
  return (singles[roundTrips] ?? 0) / all;
}

function report(rows: readonly Row[], operations: number, single: number): void {
  const cells = rows.map((row) => {
    const { kind, published, singles, mean } = row;
    const fewest = Math.min(...Object.keys(singles).map(Number));
    const verbs = [mean.reads, mean.writes, mean.compareAndSwaps, mean.fetchAndAdds];
    return [
      kind,
      String(published),
      String(fewest),
      percent(share(singles, fewest)),
      mean.roundTrips.toFixed(3),
      ...verbs.map((verb) => verb.toFixed(3)),
      figure(mean.bytesRead),
      figure(mean.bytesWritten),
      isAsPublished(row) ? 'equal' : 'DIFFERENT',
    ];
  });
  const trips = ['published', 'fewest', 'share', 'mean'];
  const verbs = ['READ', 'WRITE', 'CAS', 'FAA', 'B read', 'B written'];
  console.log(table(['round trips', ...trips, ...verbs, 'verdict'], cells));
  console.log(`One client, no conflicts, a quarter of the slots used, 16-byte keys, 32-byte values.
Fewest round trips of ${single} operations counted one by one, and the share that took so few; means
of ${operations} operations, which include the client's housekeeping between operations
(epochs, memory), and the records of other keys with the same fingerprint.`);
  for (const { kind, singles } of rows) console.log(`${kind}: ${JSON.stringify(singles)}`);
}

await runLab(main);
