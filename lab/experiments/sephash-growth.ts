/** Measures inserts into a SepHash index, and into RACE, beside SepHash's Tables 1, 2 and 3. */
import { writeFileSync } from 'node:fs';
import { RACE, type RaceIndex } from '../../src/indexes/race/race.ts';
import { SEPHASH, type SepHashIndex } from '../../src/indexes/sephash/sephash.ts';
import { LabClient } from '../support/lab-client.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { censusOf, type SepHashCensus } from '../support/sephash-census.ts';
import { difference, figure, grouped, percent, table } from '../support/text.ts';
import { PAPER_SHAPE } from './published.ts';

const SPEC = {
  halvings: { kind: 'integer', fallback: 8, help: 'load 100 million / 2^N records' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const PAPER_RECORDS = 100_000_000;
const RATIOS = [64, 32, 16, 8] as const;
/** Table 3, MB. */
const PUBLISHED_NAIVE = [9, 18, 36, 73] as const;
const PUBLISHED_POINTS = [2.68, 5.36, 10.8, 22] as const;
const MAX_DEPTH = 20;

interface SepHashLoad {
  ratio: number;
  merges: number;
  splits: number;
  census: SepHashCensus;
}

interface RaceLoad {
  splits: number;
  slots: number;
  depth: number;
  bucketHeaders: number;
  directory: number;
  bytes: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab sephash-growth', SPEC, argv);
  const factor = 2 ** options.halvings;
  const records = Math.round(PAPER_RECORDS / factor);
  const loads = RATIOS.map((ratio) => loadSepHash(records, ratio));
  const race = loadRace(records);
  report(loads, race, records, factor);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), records, loads, race };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

function loadSepHash(records: number, ratio: number): SepHashLoad {
  const client = new LabClient<SepHashIndex>(SEPHASH, { ratio, maxDepth: MAX_DEPTH }, records);
  try {
    for (let i = 0; i < records; i++) client.perform('put', i);
    const { merges, splits } = client.index.table;
    return { ratio, merges, splits, census: censusOf(client) };
  } finally {
    client.close();
  }
}

/** The shape of SepHash's port of RACE. */
function loadRace(records: number): RaceLoad {
  const shape = { ...PAPER_SHAPE, maxDepth: MAX_DEPTH };
  const client = new LabClient<RaceIndex>(RACE, shape, records);
  try {
    for (let i = 0; i < records; i++) client.perform('put', i);
    const { splits, directory, geometry } = client.index.table;
    const subtables = splits + 2 ** PAPER_SHAPE.initialDepth;
    return {
      splits,
      slots: subtables * geometry.slots,
      depth: directory.depth,
      bucketHeaders: subtables * geometry.buckets * 8,
      directory: 8 * 2 ** directory.depth,
      bytes: subtables * geometry.subtableBytes,
    };
  } finally {
    client.close();
  }
}

function report(
  loads: readonly SepHashLoad[],
  race: RaceLoad,
  records: number,
  factor: number,
): void {
  const [{ merges, splits, census }] = loads;
  console.log(`${grouped(records)} records: 100 million / ${factor}. A segment is split at every
doubling of the records, so at 100 million each count is ${factor} times as large and the depth
${Math.log2(factor)} more; initial segments are not split, and are left out of the splits.\n`);
  console.log('Tables 1 and 2, one client\n');
  const rows = [
    countRow('SepHash merges', merges, factor, 86.1e4),
    countRow('SepHash splits', splits, factor, 1.64e4, 2 * (factor - 1)),
    countRow('SepHash entries', census.mainEntries + census.places, factor, 1.01e8),
    depthRow('SepHash depth', census.depth, factor, 14),
    megabytesRow('SepHash BucMeta: headers with filters', census.headers, factor, 2.37),
    megabytesRow(
      'SepHash DirMeta: directory, record points',
      census.directory + census.cachePoints,
      factor,
      2.96,
    ),
    megabytesRow('SepHash total', totalOf(census), factor, 850),
    megabytesRow('SepHash total in blocks', census.blocks + census.directory, factor),
    countRow('RACE splits', race.splits, factor, 12.9e4, 16 * (factor - 1)),
    countRow('RACE entries', race.slots, factor, 1.97e8),
    depthRow('RACE depth', race.depth, factor, 18),
    megabytesRow('RACE BucMeta: bucket headers', race.bucketHeaders, factor, 188.56),
    megabytesRow('RACE DirMeta: directory', race.directory, factor, 6),
    megabytesRow('RACE total', race.bytes + race.directory, factor, 1660),
  ];
  console.log(table(['', 'measured', 'at 100 million', 'paper', 'difference'], rows));
  console.log(`\nTable 3: the client's FPTable caches\n`);
  const caches = loads.map(({ ratio, census: each }, i) => {
    const naive = (each.cacheNaive * factor) / 1e6;
    const points = (each.cachePoints * factor) / 1e6;
    return [
      String(ratio),
      `${figure(naive)} MB`,
      `${PUBLISHED_NAIVE[i]} MB`,
      `${figure(points)} MB`,
      `${PUBLISHED_POINTS[i]} MB`,
      percent(1 - points / naive),
      percent(1 - PUBLISHED_POINTS[i] / PUBLISHED_NAIVE[i]),
      percent(each.skew),
    ];
  });
  const header = ['ratio', 'naive', 'paper', 'record points', 'paper', 'saved', 'paper', 'skew'];
  console.log(table(header, caches));
  console.log(`
The paper's CurSegment has 113 entries of 9 bytes, ours 128 of 8: so 885 k and 781 k merges follow.
Its naive table has a byte a fingerprint (288 bytes an entry of the directory), ours 16 bits.
Skew: mean distance of a fingerprint's count from the average (paper: less than 18 % at 64).`);
}

/** A count that grows with the records; `atFirst` corrects for the initial size. */
function countRow(what: string, count: number, factor: number, paper: number, atFirst = 0) {
  const scaled = count * factor + atFirst;
  return [what, grouped(count), grouped(scaled), grouped(paper), difference(scaled, paper)];
}

function depthRow(what: string, depth: number, factor: number, paper: number) {
  const scaled = depth + Math.log2(factor);
  return [what, String(depth), String(scaled), String(paper), difference(scaled, paper)];
}

function megabytesRow(what: string, bytes: number, factor: number, paper?: number) {
  const scaled = (bytes * factor) / 1e6;
  const published = paper === undefined ? '-' : `${figure(paper)} MB`;
  const off = paper === undefined ? '-' : difference(scaled, paper);
  return [what, `${figure(bytes / 1e6)} MB`, `${figure(scaled)} MB`, published, off];
}

function totalOf(census: SepHashCensus): number {
  const { headers, fpTables, currentSegments, mainSegments, directory } = census;
  return headers + fpTables + currentSegments + mainSegments + directory;
}
