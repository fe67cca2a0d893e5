/**
 * Round trips and verbs of each operation while an index grows, with and without those for growth,
 * for several indexes in one run: SHARD's Tables 1 and 3.
 */
import { writeFileSync } from 'node:fs';
import { ALWAYS, IF_ABSENT, IF_PRESENT } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { growthsOf } from '../support/counters.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { type OwnIndex, ownIndex } from '../support/own-index.ts';
import { figure, percent, table } from '../support/text.ts';
import { KeyGenerator, Permutation, ValueGenerator } from '../workloads/index.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 200_000, minimum: 1000, help: 'keys to insert' },
  indexes: { kind: 'text', fallback: 'race,sephash,shard', help: 'names, with commas' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the order of keys' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const KINDS = ['insert', 'search', 'update', 'delete'] as const;
type Kind = (typeof KINDS)[number];

/**
 * Table 3, with resizing. It counts the index without the record that a slot points at, which is a
 * round trip more for a search, an update and a deletion of SHARD.
 */
const PUBLISHED: Record<string, Record<Kind, number>> = {
  race: { search: 2.03, insert: 12.79, update: 3.03, delete: 3.03 },
  sephash: { search: 2.2, insert: 11.56, update: 3.2, delete: 3.2 },
  shard: { search: 1, insert: 2.59, update: 2, delete: 2 },
};
const COUNTERS = ['trips', 'READ', 'WRITE', 'CAS', 'FAA', 'B read', 'B written'] as const;

interface Row {
  index: string;
  kind: Kind;
  published: number | undefined;
  /** Means by counter: of all operations, and of those in which the index did not grow. */
  all: number[];
  quiet: number[];
  /** Share of the operations in which the index grew, and their mean round trips. */
  growing: number;
  tripsOfGrowing: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab growing-round-trips', SPEC, argv);
  const { records, indexes, seed } = options;
  const rows = indexes.split(',').flatMap((name) => measure(name, records, seed));
  report(rows, records);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), counters: COUNTERS, rows };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

function measure(name: string, records: number, seed: number): Row[] {
  const own = ownIndex(name, records);
  const request = own.index.newRequest();
  const order = new Permutation(records, seed);
  const generators = { keys: new KeyGenerator(), values: new ValueGenerator() };
  return KINDS.map((kind) => {
    const all = new Float64Array(COUNTERS.length);
    const quiet = new Float64Array(COUNTERS.length);
    let growing = 0;
    for (let i = 0; i < records; i++) {
      const record = kind === 'insert' ? i : order.at(i);
      const { cost, grew } = costOf(own, () => operationOn(own, request, generators, kind, record));
      cost.forEach((value, c) => {
        all[c] += value;
        if (!grew) quiet[c] += value;
      });
      if (grew) growing++;
    }
    return {
      index: name,
      kind,
      published: PUBLISHED[name]?.[kind],
      all: Array.from(all, (sum) => sum / records),
      quiet: Array.from(quiet, (sum) => sum / (records - growing)),
      growing: growing / records,
      tripsOfGrowing: growing === 0 ? 0 : (all[0] - quiet[0]) / growing,
    };
  });
}

/** Round trips, verbs and bytes of one operation, without the client's housekeeping. */
function costOf({ pool, index }: OwnIndex, operation: () => Operation<unknown>) {
  const { rows } = pool.fabric.traffic;
  pool.enter();
  const before = rows.slice();
  const growths = growthsOf(index);
  const result = pool.run(operation());
  const cost = before.map((value, i) => rows[i] - value);
  const grew = growthsOf(index) > growths;
  pool.exit();
  if (result !== true && !(Number(result) > 0)) throw new Error(`an operation ended ${result}`);
  return { cost, grew };
}

interface Generators {
  keys: KeyGenerator;
  values: ValueGenerator;
}

function operationOn(
  { index }: OwnIndex,
  request: Request,
  { keys, values }: Generators,
  kind: Kind,
  record: number,
): Operation<unknown> {
  const key = keys.bytes(record);
  if (kind === 'search' || kind === 'delete') {
    request.setKey(key, index.records.seed);
    return kind === 'search' ? index.search(request) : index.remove(request);
  }
  const value = values.buffer(record, kind === 'update' ? 1 : 0);
  index.records.encode(request, key, value, 1);
  // SepHash appends without a search, as in its paper; the other indexes always search first.
  if (index.manifest.name === 'sephash') return index.write(request, ALWAYS);
  return index.write(request, kind === 'insert' ? IF_ABSENT : IF_PRESENT);
}

function report(rows: readonly Row[], records: number): void {
  const cells = rows.map(({ index, kind, published, all, quiet, growing, tripsOfGrowing }) => [
    `${index} ${kind}`,
    published === undefined ? '-' : published.toFixed(2),
    all[0].toFixed(2),
    quiet[0].toFixed(2),
    percent(growing),
    tripsOfGrowing.toFixed(1),
    ...all.slice(1, 5).map((value) => value.toFixed(2)),
    ...quiet.slice(1, 5).map((value) => value.toFixed(2)),
    figure(all[5]),
    figure(all[6]),
  ]);
  const verbs = ['READ', 'WRITE', 'CAS', 'FAA'];
  const header = ['', 'paper', 'trips', 'quiet', 'growing', 'trips then'];
  console.log(table([...header, ...verbs, ...verbs, 'B read', 'B written'], cells));
  console.log(`One client inserts ${records} keys of 16 bytes with values of 32 into a small index, then each is
searched, updated and deleted once, in a random order. Trips, and verbs on the left: means of all
operations; quiet, and verbs on the right: of those in which the client did nothing to let the index
grow. Growing: the share of the others, and round trips of one of them. Paper: SHARD's Table 3, with
resizing and many clients; its SHARD column leaves out the record, one round trip of a search, an
update and a deletion.`);
}
