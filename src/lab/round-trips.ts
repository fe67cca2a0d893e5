/** Round trips and verbs of each operation without conflicts, as the client's own counters see it. */
import { writeFileSync } from 'node:fs';
import type { Store, Traffic } from '../store/api.ts';
import { openSync } from '../store/open.ts';
import { KeyGenerator, Permutation, ValueGenerator } from '../workloads/index.ts';
import { describeMachine } from './support/machine.ts';
import { parseOptions, runLab } from './support/options.ts';
import { figure, percent, table } from './support/text.ts';
import { perOperation, TrafficMeter } from './support/traffic-meter.ts';

const SPEC = {
  operations: { kind: 'integer', fallback: 10_000, minimum: 10, help: 'operations of each kind' },
  group: { kind: 'integer', fallback: 10, minimum: 1, help: 'operations between two readings' },
  groups: {
    kind: 'integer',
    fallback: 1024,
    minimum: 64,
    help: 'bucket groups of each of 4 subtables',
  },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the order of keys' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const KINDS = ['search', 'insert', 'update', 'delete'] as const;
type Kind = (typeof KINDS)[number];

/** RACE, section 3.3 and Figure 7. */
const PUBLISHED: Record<Kind, number> = { search: 2, insert: 3, update: 3, delete: 3 };

interface Row {
  kind: Kind;
  operations: number;
  published: number;
  /** Round trips of an operation in the group that needed the fewest. */
  fewest: number;
  /** Means of one operation. */
  mean: Traffic;
}

async function main(argv: string[]): Promise<void> {
  const options = parseOptions('node --import tsx src/lab/round-trips.ts', SPEC, argv);
  const race = { groups: options.groups, initialDepth: 2, maxDepth: 8 };
  const store = openSync<Uint8Array>('memory:', { race, values: 'bytes', size: 256 * 2 ** 20 });
  try {
    const rows = measureAll(store, options.operations, options.group, options.seed);
    const { resizes, loadFactor, slots } = store.stats();
    if (resizes.splits > 0) throw new Error('the table split: use more --groups');
    report(rows, slots, loadFactor);
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), slots, rows };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
    if (rows.some(({ fewest, published }) => fewest !== published)) process.exitCode = 1;
  } finally {
    store.close();
  }
}

/** Half the records are there before the clock starts; then each kind gets every key once. */
function measureAll(store: Store<Uint8Array>, count: number, group: number, seed: number): Row[] {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const order = new Permutation(count, seed);
  const key = (index: number) => keys.bytes(index);
  for (let i = 0; i < count; i++) store.put(key(count + i), values.buffer(count + i));
  const must = (done: boolean) => {
    if (!done) throw new Error('an operation did not find the key as it should be');
  };
  const run: Record<Kind, (index: number) => void> = {
    insert: (i) => must(store.insert(key(i), values.buffer(i))),
    search: (i) => must(store.get(key(i)) !== undefined),
    update: (i) => must(store.update(key(i), values.buffer(i, 1))),
    delete: (i) => must(store.delete(key(i))),
  };
  const sequence: readonly Kind[] = ['insert', 'search', 'update', 'delete'];
  const measured = sequence.map((kind) => {
    const step = (i: number) => run[kind](order.at(i));
    return measure(store, kind, count, group, step);
  });
  return KINDS.map((kind) => measured[sequence.indexOf(kind)]);
}

function measure(
  store: Store<Uint8Array>,
  kind: Kind,
  operations: number,
  group: number,
  step: (index: number) => void,
): Row {
  const meter = new TrafficMeter(store);
  const readings: Traffic[] = [];
  let fewest = Number.POSITIVE_INFINITY;
  for (let from = 0; from < operations; from += group) {
    const end = Math.min(from + group, operations);
    for (let i = from; i < end; i++) step(i);
    const reading = meter.read();
    readings.push(reading);
    fewest = Math.min(fewest, reading.roundTrips / (end - from));
  }
  const mean = perOperation(readings, operations);
  return { kind, operations, published: PUBLISHED[kind], fewest, mean };
}

function report(rows: readonly Row[], slots: number, loadFactor: number): void {
  const cells = rows.map(({ kind, operations, published, fewest, mean }) => [
    kind,
    String(operations),
    String(published),
    figure(fewest),
    mean.roundTrips.toFixed(4),
    percent(mean.roundTrips - published),
    figure(mean.reads),
    figure(mean.writes),
    figure(mean.compareAndSwaps),
    figure(mean.fetchAndAdds),
    figure(mean.bytesRead),
    figure(mean.bytesWritten),
    fewest === published ? 'equal' : 'DIFFERENT',
  ]);
  const trips = ['RTT published', 'fewest', 'mean', 'extra'];
  const verbs = ['READ', 'WRITE', 'CAS', 'FAA', 'B read', 'B written'];
  console.log(table(['operation', 'runs', ...trips, ...verbs, 'verdict'], cells));
  console.log(`One client, no conflicts, ${slots} slots, load factor ${percent(loadFactor)} at the end.
Fewest: of the groups of operations between two readings. Extra: round trips above the published
number per operation; a fingerprint that two keys of one bucket share costs one, and so does now
and then a new chunk of memory. Verbs and bytes are means of one operation.`);
}

await runLab(main);
