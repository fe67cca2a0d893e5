/**
 * Round trips and verbs of every operation of every index without conflicts, starting with an empty
 * index: with and without the costs of growing, beside the papers' figures.
 */
import { writeFileSync } from 'node:fs';
import { INDEX_NAMES, kindNamed } from '../../src/indexes/kinds.ts';
import {
  ADDS,
  BYTES_READ,
  BYTES_WRITTEN,
  READS,
  ROUND_TRIPS,
  SWAPS,
  WRITES,
} from '../../src/verbs/index.ts';
import { CALLS, type Call, LabClient } from '../support/lab-client.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { figure, percent, table } from '../support/text.ts';
import { Permutation } from '../workloads/index.ts';
import { publishedTrips } from './published-trips.ts';

const SPEC = {
  operations: { kind: 'integer', fallback: 100_000, minimum: 10, help: 'of each kind' },
  index: { kind: 'text', fallback: INDEX_NAMES.join(','), help: 'indexes, with commas' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the order of keys' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

/** In this order every call finds its record in the state that it needs. */
const TURNS: readonly Call[] = ['insert', 'search', 'update', 'put', 'delete'];

interface Row {
  index: string;
  call: Call;
  /** Operations by number of round trips, without those in which this client resized. */
  counts: Record<number, number>;
  /** Means of the same operations, by counter of verbs/traffic.ts. */
  quiet: number[];
  /** Means of all operations. */
  all: number[];
  resizing: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab round-trips', SPEC, argv);
  const names = options.index.split(',');
  const unknown = names.find((name) => !INDEX_NAMES.includes(name));
  if (unknown !== undefined) throw new UsageError(`--index is some of ${INDEX_NAMES.join(', ')}`);
  const rows = names.flatMap((name) => rowsOf(name, options.operations, options.seed));
  report(rows);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), rows };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
  if (!rows.every(isAsPublished)) process.exitCode = 1;
}

/** Runs all calls on every key of an initially empty index with default parameters. */
function rowsOf(name: string, count: number, seed: number): Row[] {
  const client = new LabClient(kindNamed(name), {}, count);
  try {
    const order = new Permutation(count, seed);
    const measured = TURNS.map((call) => measure(client, name, call, (i) => order.at(i), count));
    return measured.sort((a, b) => CALLS.indexOf(a.call) - CALLS.indexOf(b.call));
  } finally {
    client.close();
  }
}

function measure(
  client: LabClient,
  index: string,
  call: Call,
  recordOf: (i: number) => number,
  count: number,
): Row {
  const before = new Float64Array(client.traffic.length);
  const all = new Float64Array(before.length);
  const quiet = new Float64Array(before.length);
  const counts: Record<number, number> = {};
  let resizing = 0;
  let resizes = 0;
  const around = {
    before() {
      before.set(client.traffic);
      resizes = client.resizes;
    },
    after() {
      const used = client.traffic.map((value, row) => value - before[row]);
      const resized = client.resizes > resizes;
      if (resized) resizing++;
      else counts[used[ROUND_TRIPS]] = (counts[used[ROUND_TRIPS]] ?? 0) + 1;
      for (let row = 0; row < used.length; row++) {
        all[row] += used[row];
        if (!resized) quiet[row] += used[row];
      }
    },
  };
  for (let i = 0; i < count; i++) client.perform(call, recordOf(i), around);
  const means = (sums: Float64Array, of: number) => [...sums].map((sum) => sum / of);
  return {
    index,
    call,
    counts,
    resizing,
    quiet: means(quiet, count - resizing),
    all: means(all, count),
  };
}

/** Whether most operations take as many round trips as the paper says. */
function isAsPublished({ index, call, counts }: Row): boolean {
  const published = publishedTrips(index, call);
  return published === undefined || mostOften(counts) === published;
}

function mostOften(counts: Record<number, number>): number {
  const [[most]] = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return Number(most);
}

function share(counts: Record<number, number>, roundTrips: number): number {
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return (counts[roundTrips] ?? 0) / all;
}

function report(rows: readonly Row[]): void {
  const cells = rows.map((row) => {
    const { index, call, counts, quiet, all, resizing } = row;
    const published = publishedTrips(index, call);
    const most = mostOften(counts);
    const verbs = [READS, WRITES, SWAPS, ADDS].map((verb) => quiet[verb].toFixed(2));
    const words = published === undefined ? '' : isAsPublished(row) ? 'equal' : 'DIFFERENT';
    return [
      `${index} ${call}`,
      published === undefined ? '-' : String(published),
      String(most),
      percent(share(counts, most)),
      quiet[ROUND_TRIPS].toFixed(3),
      ...verbs,
      figure(quiet[BYTES_READ]),
      figure(quiet[BYTES_WRITTEN]),
      String(resizing),
      all[ROUND_TRIPS].toFixed(3),
      (all[READS] + all[WRITES] + all[SWAPS] + all[ADDS]).toFixed(2),
      words,
    ];
  });
  const trips = ['paper', 'mostly', 'share', 'mean'];
  const verbs = ['READ', 'WRITE', 'CAS', 'FAA', 'B read', 'B written'];
  const whole = ['resizing', 'mean of all', 'verbs of all', 'verdict'];
  console.log(table(['round trips', ...trips, ...verbs, ...whole], cells));
  console.log(`One client, no conflicts, 16-byte keys, 32-byte values, default parameters, from an
empty index on; a client's housekeeping between two operations is not in it. "resizing": operations
in which the client resized (merges and splits too); they are in the last two means only. A search
reads its record with one READ: the others are READs of the index (ReadBuc in SepHash's Table 1:
2.0 for RACE, 2.05 for SepHash).`);
  for (const { index, call, counts } of rows) {
    console.log(`${index} ${call}: ${JSON.stringify(counts)}`);
  }
}
