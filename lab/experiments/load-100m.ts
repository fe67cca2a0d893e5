/** Loads many records into one pool and compares the result with the published figures. */
import { writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { RaceParameters, Store, StoreStats } from '../../src/store/api.ts';
import { destroySync, inspectSync, openSync } from '../../src/store/open.ts';
import { Batch } from '../support/batch.ts';
import { Cleanup } from '../support/cleanup.ts';
import { monotonic } from '../support/clock.ts';
import { describeMachine } from '../support/machine.ts';
import { type Options, parseOptions } from '../support/options.ts';
import { figure, grouped, mebibytes, percent, table } from '../support/text.ts';
import { perOperation, TrafficMeter } from '../support/traffic-meter.ts';
import { KeyGenerator, Prng, ValueGenerator } from '../workloads/index.ts';
import { PAPER_SHAPE, RACE_AT_100M } from './published.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 100_000_000, minimum: 1, help: 'records to load' },
  batch: { kind: 'integer', fallback: 1024, minimum: 1, help: 'records a setMany; 1 uses set' },
  size: { kind: 'integer', fallback: 16 * 2 ** 30, minimum: 2 ** 20, help: 'bytes of the pool' },
  url: { kind: 'text', fallback: '', help: 'pool to use; default shm:load-<pid>' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
  paper: { kind: 'flag', help: 'the shape of the RACE port in the paper: 8 slots, 64 groups' },
  associativity: { kind: 'integer', fallback: 0, help: 'slots in a bucket; 0 is the default' },
  groups: { kind: 'integer', fallback: 0, help: 'bucket groups in a subtable; 0 is the default' },
} as const;
type LoadOptions = Options<typeof SPEC>;

const PROGRESS = 5_000_000;
/** Records between two turns of the event loop, which handles signals. */
const PAUSE = 500_000;
const SEARCHES = 100_000;

interface Outcome {
  seconds: number;
  /** The part of it that making the keys and values took, measured separately. */
  generatorSeconds: number;
  stats: StoreStats;
  /** READs and round trips of a search: means over random searches after the load. */
  search: { reads: number; roundTrips: number; found: number };
  chunkBytes: number;
  hugePages: boolean;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab load-100m', SPEC, argv);
  const url = options.url === '' ? `shm:load-${process.pid}` : options.url;
  const cleanup = new Cleanup();
  try {
    cleanup.add(() => destroySync(url, { force: true }));
    const race = shapeOf(options);
    const index = { kind: 'race', ...race } as const;
    const store = openSync<Uint8Array>(url, { size: options.size, values: 'bytes', index });
    cleanup.add(() => store.close());
    const outcome = await measure(store, url, options);
    report(outcome, options);
    if (options.json !== '') {
      const whole = { options, race, machine: describeMachine(), published: RACE_AT_100M, outcome };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } catch (error) {
    if (!cleanup.interrupted) throw error;
  } finally {
    await cleanup.run();
  }
}

function shapeOf(options: LoadOptions): RaceParameters {
  const shape: RaceParameters = options.paper ? { ...PAPER_SHAPE } : {};
  if (options.associativity > 0) shape.associativity = options.associativity;
  if (options.groups > 0) shape.groups = options.groups;
  return shape;
}

async function measure(
  store: Store<Uint8Array>,
  url: string,
  options: LoadOptions,
): Promise<Outcome> {
  const seconds = await load(store, options);
  const search = searches(store, options.records);
  const stats = store.stats();
  const { chunks, chunkSize, hugePages } = inspectSync(url);
  const generatorSeconds = generate(Math.min(options.records, 1_000_000), options);
  return {
    seconds,
    generatorSeconds,
    stats,
    search,
    chunkBytes: chunks.used * chunkSize,
    hugePages,
  };
}

async function load(store: Store<Uint8Array>, options: LoadOptions): Promise<number> {
  const { records, batch: size } = options;
  const batch = new Batch(size);
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const begin = monotonic();
  let lapBegin = begin;
  for (let from = 0; from < records; from += size) {
    const entries = batch.fill(from, records, keys, values);
    if (size === 1) store.set(entries[0][0], entries[0][1]);
    else store.setMany(entries);
    const done = from + entries.length;
    if (passes(PAUSE, from, done)) await setImmediate();
    if (passes(PROGRESS, from, done)) {
      const now = monotonic();
      const lap = grouped((PROGRESS / Number(now - lapBegin)) * 1e9);
      console.error(`${grouped(done)} records, ${lap}/s in the last ${grouped(PROGRESS)}`);
      lapBegin = now;
    }
  }
  return Number(monotonic() - begin) / 1e9;
}

function passes(step: number, from: number, to: number): boolean {
  return Math.floor(to / step) > Math.floor(from / step);
}

/** Runs the loop without a store and scales up the time: the generators' part of the load. */
function generate(sampled: number, { records, batch: size }: LoadOptions): number {
  const batch = new Batch(size);
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const begin = monotonic();
  for (let from = 0; from < sampled; from += size) batch.fill(from, sampled, keys, values);
  return (Number(monotonic() - begin) / 1e9) * (records / sampled);
}

function searches(store: Store<Uint8Array>, records: number): Outcome['search'] {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const prng = Prng.fromSeed(1);
  const key = new Uint8Array(16);
  const meter = new TrafficMeter(store);
  let found = 0;
  for (let i = 0; i < SEARCHES; i++) {
    const record = prng.below(records);
    keys.write(record, key);
    const value = store.get(key);
    if (value !== undefined && values.belongsTo(value, record)) found++;
  }
  const { reads, roundTrips } = perOperation([meter.read()], SEARCHES);
  return { reads, roundTrips, found };
}

function report(outcome: Outcome, options: LoadOptions): void {
  const { stats, seconds, generatorSeconds, search, chunkBytes, hugePages } = outcome;
  const { records } = options;
  const rate = grouped(records / seconds);
  console.log(`${grouped(records)} records of 16 + 32 bytes in ${figure(seconds)} s: ${rate}/s,`);
  console.log(`of which making keys and values took about ${figure(generatorSeconds)} s.`);
  console.log(`${grouped(search.found)} of ${grouped(SEARCHES)} sampled records read back right;`);
  console.log(`the store counts ${grouped(stats.records)} records. Huge pages: ${hugePages}.`);
  const { memory } = stats;
  const bytes = [
    ['pool chunks', chunkBytes],
    ['records', memory.records],
    ['subtables', memory.subtables],
    ['directory', memory.directory],
  ] as const;
  const cells = bytes.map(([what, n]) => [what, mebibytes(n), figure(n / records)]);
  console.log(`\n${table(['memory', 'total', 'bytes a record'], cells)}\n`);
  console.log(table(['', 'here', 'published RACE', 'source'], comparison(outcome)));
  const shape =
    records === RACE_AT_100M.records ? '' : ' Rows compare at 100,000,000 records only.';
  console.log(`Published: SepHash's port of RACE, 8 entries a bucket.${shape}`);
  console.log(`Directory doublings: ${stats.resizes.doublings}; subtables: ${stats.subtables}.`);
  console.log(`Retries by reason: ${JSON.stringify(stats.retries)}`);
}

function comparison({ stats, search }: Outcome): string[][] {
  const published = RACE_AT_100M;
  const { memory, records } = stats;
  const retries = Object.values(stats.retries).reduce((sum, count) => sum + count, 0);
  const here = [
    [published.splits, grouped(stats.resizes.splits)],
    [
      published.reads,
      `${figure(search.reads)} READs with the record, ${figure(search.roundTrips)} RTT`,
    ],
    [published.retries, figure(1 + retries / records)],
    [published.resize, 'not measured'],
    [published.slots, grouped(stats.slots)],
    [published.loadFactor, percent(stats.loadFactor)],
    [published.bucketMetadata, 'inside subtables'],
    [published.directory, mebibytes(memory.directory)],
    [published.total, mebibytes(memory.subtables + memory.directory)],
    [published.depth, String(stats.globalDepth)],
  ] as const;
  return here.map(([row, mine]) => [row.what, mine, row.published, row.source]);
}
