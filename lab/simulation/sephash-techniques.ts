import { SEPHASH_TECHNIQUES, type SepHashTechnique } from '../../src/indexes/sephash/geometry.ts';
import { without } from '../../src/indexes/substrates/parameters.ts';
import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { type Puts, runPuts } from './puts.ts';
import { registeredKind } from './registered-kind.ts';
import type { Saturation } from './saturation.ts';
import { runSearches } from './searches.ts';

/** The most clients that the paper has. */
const CLIENTS = 128;
const POOL_BYTES = 2 ** 29;

/**
 * Writing: MainSegments of 8 CurSegments, so that every segment splits within a short run. RACE
 * starts with about as many entries.
 */
const WRITING = { ratio: 8, initialDepth: 6, maxDepth: 12 };
const RACE_WRITING = { associativity: 8, groups: 64, initialDepth: 5, maxDepth: 12 };
const PUTS = 100_000;

/** Reading: the paper's sizes. */
const READING = { initialDepth: 4, maxDepth: 10 };
const RACE_READING = { associativity: 8, groups: 64, initialDepth: 6, maxDepth: 12 };
const RECORDS = 80_000;

const writing = (...left: SepHashTechnique[]) => ({
  ...WRITING,
  ...without(SEPHASH_TECHNIQUES, ...left),
});
const reading = (...left: SepHashTechnique[]) => ({
  ...READING,
  ...without(SEPHASH_TECHNIQUES, ...left),
});

const WRITE_STEPS = [
  { name: 'RACE', index: 'race', wishes: RACE_WRITING },
  {
    name: 'Base',
    index: 'sephash',
    wishes: writing('depthBits', 'signs', 'zeroWait'),
    published: 1.6,
  },
  { name: '+ resize-optimized entry', index: 'sephash', wishes: writing('zeroWait') },
  { name: '+ zero-wait write', index: 'sephash', wishes: WRITING, published: 3.3 },
  { name: 'all but append writes', index: 'sephash', wishes: writing('append') },
  { name: 'all but the sliding window', index: 'sephash', wishes: { ...WRITING, window: 0 } },
] as const;

const READ_STEPS = [
  { name: 'RACE', index: 'race', wishes: RACE_READING },
  { name: 'Base', index: 'sephash', wishes: reading('cache', 'filter') },
  { name: '+ FPTable', index: 'sephash', wishes: reading('filter') },
  { name: '+ BitMap', index: 'sephash', wishes: READING },
  { name: 'the same, record points', index: 'sephash', wishes: reading('fpTable') },
] as const;

/** What each technique adds. */
export const sepHashTechniques: Experiment = {
  name: 'sephash-techniques',
  run(settings) {
    const writes = WRITE_STEPS.map(({ index, wishes }) => runWrites(settings, index, wishes));
    const reads = READ_STEPS.map(({ index, wishes }) => runReads(settings, index, wishes));
    const rows = [
      ...WRITE_STEPS.flatMap((step, i) => writeRows(step, writes[i], writes[0])),
      gain('puts: resize-optimized entry to Base', writes[2].rate / writes[1].rate, 2),
      ...READ_STEPS.map(({ name }, i) => readRow(name, reads[i])),
      gain('searches: FPTable to Base', reads[2].rate / reads[1].rate, 22),
      gain('searches: BitMap to FPTable', reads[3].rate / reads[2].rate, 2),
      gain('searches: BitMap to RACE', reads[3].rate / reads[0].rate),
    ];
    const notes = [
      `${CLIENTS} clients. Puts: ${PUTS} new keys from an empty index of 64 segments on,`,
      'CurSegments of 1 KB, a ratio of 8; RACE with 32 subtables of 1,536 slots at first.',
      `Searches: ${RECORDS} records, CurSegments of 1 KB and a ratio of 64.`,
    ];
    return { title: 'SepHash, technique by technique (Figure 19)', rows, notes };
  },
};

function runWrites(settings: Settings, index: string, wishes: Readonly<Record<string, number>>) {
  const kind = registeredKind(index, wishes);
  return runPuts(settings, { kind, clients: CLIENTS, puts: PUTS, poolBytes: POOL_BYTES });
}

function runReads(settings: Settings, index: string, wishes: Readonly<Record<string, number>>) {
  const kind = registeredKind(index, wishes);
  const load = { clients: CLIENTS, records: RECORDS, poolBytes: POOL_BYTES };
  return runSearches(settings, { kind, ...load });
}

function writeRows(
  { name, published }: { name: string; published?: number },
  puts: Puts,
  race: Puts,
): Row[] {
  const row: Row = {
    what: `puts, ${name}`,
    ours: puts.rate / 1e6,
    unit: 'M/s',
    detail: inWords(puts),
    figures: {
      ...puts.resizes,
      p50: puts.latencies.quantile(0.5),
      p99: puts.latencies.quantile(0.99),
    },
  };
  if (puts === race) return [row];
  return [row, gain(`puts, ${name}: to RACE`, puts.rate / race.rate, published)];
}

function inWords({ use, latencies, resizes, retries }: Puts): string {
  const [node] = use.memoryNodes;
  const counts = (each: Record<string, number>) =>
    Object.entries(each)
      .filter(([, count]) => count > 0)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ');
  return [
    `messages ${percent(node.messages, 0)}, link out ${percent(node.outbound, 0)}`,
    `atomics ${percent(node.atomics, 0)}`,
    `p50 ${(latencies.quantile(0.5) / 1000).toFixed(1)} us`,
    `p99 ${(latencies.quantile(0.99) / 1000).toFixed(0)} us`,
    counts(resizes),
    counts(retries),
  ].join('; ');
}

function readRow(name: string, { rate, use, latencies }: Saturation): Row {
  const [node] = use.memoryNodes;
  return {
    what: `searches, ${name}`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: [
      `messages ${percent(node.messages, 0)}, link out ${percent(node.outbound, 0)}`,
      `p50 ${(latencies.quantile(0.5) / 1000).toFixed(1)} us`,
    ].join('; '),
  };
}

function gain(what: string, ours: number, published?: number): Row {
  return { what, ours, unit: 'x', published };
}
