/** RACE: the share of insertion time that goes into inserts that split a subtable. */
import { writeFileSync } from 'node:fs';
import { invariant } from '../../src/errors.ts';
import { ALWAYS } from '../../src/indexes/contract.ts';
import { RaceIndex } from '../../src/indexes/race/race.ts';
import { monotonic } from '../support/clock.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { type OwnIndex, ownIndex } from '../support/own-index.ts';
import { figure, percent, table } from '../support/text.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import { PAPER_SHAPE, RACE_AT_100M } from './published.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 20_000_000, minimum: 1000, help: 'records to insert' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const SHAPE = { ...PAPER_SHAPE, maxDepth: 20 };
const VERSION = 1;

interface Outcome {
  splits: number;
  seconds: number;
  splitSeconds: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab resize-share', SPEC, argv);
  const outcome = insertAll(ownIndex('race', options.records, SHAPE), options.records);
  report(outcome, options.records);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), outcome };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

function insertAll({ pool, index }: OwnIndex, records: number): Outcome {
  invariant(index instanceof RaceIndex, 'the index is RACE');
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
    race.records.encode(request, key, value, VERSION);
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
