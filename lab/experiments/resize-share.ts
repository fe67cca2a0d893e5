/** Which share of the time of inserts goes into resizing: into those that split a subtable. */
import { writeFileSync } from 'node:fs';
import { MemorySource } from '../../src/fabrics/shared/memory-source.ts';
import { SharedFabric } from '../../src/fabrics/shared/shared-fabric.ts';
import { ALWAYS } from '../../src/indexes/contract.ts';
import { buildRace, openRace, type RaceIndex } from '../../src/indexes/race/race.ts';
import { CHUNK_BYTES } from '../../src/pool/layout.ts';
import { LocalPool } from '../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../src/pool/superblock.ts';
import { monotonic } from '../support/clock.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { figure, percent, table } from '../support/text.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import { PAPER_SHAPE, RACE_AT_100M } from './published.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 20_000_000, minimum: 1000, help: 'records to insert' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const REGION_BYTES = 2 ** 30;
const BYTES_A_RECORD = 130;
const MAX_DEPTH = 20;
const VERSION = 1;

interface Outcome {
  splits: number;
  seconds: number;
  splitSeconds: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab resize-share', SPEC, argv);
  const outcome = insertAll(newIndex(options.records), options.records);
  report(outcome, options.records);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), outcome };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

/** One client on memory of its own, without a store: the counters of its index are at hand. */
function newIndex(records: number): { pool: LocalPool; index: RaceIndex } {
  const regions = 1 + Math.ceil((records * BYTES_A_RECORD) / REGION_BYTES);
  const parameters = {
    regionBytes: REGION_BYTES,
    regionsMax: regions,
    clientsMax: 2,
    chunkBytes: CHUNK_BYTES,
    createdAt: 0,
    poolId: 0,
  };
  const source = MemorySource.allocate(regions, REGION_BYTES);
  const fabric = new SharedFabric(source);
  fabric.region(0).u8.set(formatSuperblock(parameters));
  const pool = new LocalPool(fabric, parameters, source);
  pool.join('lab');
  const shape = { ...PAPER_SHAPE, maxDepth: MAX_DEPTH, seed: 1 };
  const root = pool.run(buildRace(pool, shape, 1));
  return { pool, index: pool.run(openRace(pool, shape, 1, root)) };
}

function insertAll(
  { pool, index }: { pool: LocalPool; index: RaceIndex },
  records: number,
): Outcome {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const request = index.newRequest();
  const { table: race } = index;
  const outcome = { splits: 0, seconds: 0, splitSeconds: 0 };
  for (let i = 0; i < records; i++) {
    const key = keys.bytes(i);
    const value = values.buffer(i);
    const splits = race.splits;
    const begin = monotonic();
    pool.enter();
    race.records.encode(request, key, value, index.hashSeed, VERSION);
    pool.run(index.write(request, ALWAYS));
    pool.exit();
    const seconds = Number(monotonic() - begin) / 1e9;
    outcome.seconds += seconds;
    if (race.splits > splits) outcome.splitSeconds += seconds;
  }
  outcome.splits = race.splits;
  pool.close();
  return outcome;
}

function report({ splits, seconds, splitSeconds }: Outcome, records: number): void {
  const { resize } = RACE_AT_100M;
  console.log(
    table(
      ['', 'measured', `published (${resize.source}, 100 M)`],
      [
        ['records', figure(records), '100 M'],
        ['splits', figure(splits), RACE_AT_100M.splits.published],
        ['an insert', `${figure((seconds / records) * 1e9)} ns`, ''],
        ['a split', `${figure((splitSeconds / splits) * 1e6)} us`, '5.3 ms'],
        [resize.what, percent(splitSeconds / seconds), resize.published],
      ],
    ),
  );
}
