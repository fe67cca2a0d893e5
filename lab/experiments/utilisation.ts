/** Entry and space utilisation as the first records are inserted (SepHash, Figure 18). */
import { writeFileSync } from 'node:fs';
import { RACE, type RaceIndex } from '../../src/indexes/race/race.ts';
import { SEPHASH, type SepHashIndex } from '../../src/indexes/sephash/sephash.ts';
import { LabClient } from '../support/lab-client.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { censusOf } from '../support/sephash-census.ts';
import { grouped, percent, table } from '../support/text.ts';
import { PAPER_SHAPE } from './published.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 10_000, minimum: 1, help: 'records to insert' },
  step: { kind: 'integer', fallback: 1000, minimum: 1, help: 'records between two samples' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const ENTRY_BYTES = 8;
/** Subtables of 1,536 slots: initially about as many slots as the paper's SepHash has. */
const RACE_SHAPE = { ...PAPER_SHAPE, initialDepth: 3, maxDepth: 16 };

interface Look {
  records: number;
  entries: number;
  /** Bytes of the index, and of the blocks that contain it; neither includes records. */
  bytes: number;
  blocks: number;
}

interface Column {
  index: string;
  looks: Look[];
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab utilisation', SPEC, argv);
  const { records, step } = options;
  const columns = [sepHash(records, step), race(records, step)];
  report(columns);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), columns };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

function sepHash(records: number, step: number): Column {
  const client = new LabClient<SepHashIndex>(SEPHASH, {}, records);
  return lookAt('SepHash', client, records, step, () => {
    const { mainEntries, places, blocks, ...bytes } = censusOf(client);
    const { headers, fpTables, currentSegments, mainSegments, directory } = bytes;
    return {
      entries: mainEntries + places,
      bytes: headers + fpTables + currentSegments + mainSegments + directory,
      blocks: blocks + directory,
    };
  });
}

function race(records: number, step: number): Column {
  const client = new LabClient<RaceIndex>(RACE, RACE_SHAPE, records);
  const { directory, geometry } = client.index.table;
  return lookAt('RACE', client, records, step, () => {
    const subtables = client.index.table.splits + 2 ** RACE_SHAPE.initialDepth;
    const bytes = subtables * geometry.subtableBytes + 8 * 2 ** directory.depth;
    return { entries: subtables * geometry.slots, bytes, blocks: bytes };
  });
}

function lookAt(
  index: string,
  client: LabClient,
  records: number,
  step: number,
  look: () => Omit<Look, 'records'>,
): Column {
  const looks: Look[] = [];
  try {
    for (let i = 0; i < records; i++) {
      client.perform('put', i);
      if ((i + 1) % step === 0) looks.push({ records: i + 1, ...look() });
    }
  } finally {
    client.close();
  }
  return { index, looks };
}

function report(columns: readonly Column[]): void {
  const header = columns.flatMap(({ index }) => [
    `${index} entries`,
    'entry use',
    'space use',
    'in blocks',
  ]);
  const rows = columns[0].looks.map(({ records }, i) => [
    grouped(records),
    ...columns.flatMap(({ looks }) => {
      const { entries, bytes, blocks } = looks[i];
      const used = ENTRY_BYTES * records;
      return [
        grouped(entries),
        percent(records / entries),
        percent(used / bytes),
        percent(used / blocks),
      ];
    }),
  ]);
  console.log(table(['records', ...header], rows));
  console.log(`
Entry use: records to the entries that the index has. Space use: 8 bytes for each record to the
bytes of the index, headers, filters, FPTables and directory included; "in blocks" with what its
blocks have more. Figure 18 has no figures in its text but: SepHash more than 90 % in both, RACE at
most about 90 % of entries and less after a split. Records are inserted once each.`);
}
