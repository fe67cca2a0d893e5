/**
 * Measures the space that indexes take as they grow: entries and bytes per key, the client's cache,
 * and the share of keys in each level of SHARD (SHARD, Table 4 and the 97 % of section 2.3).
 */
import { writeFileSync } from 'node:fs';
import { IF_ABSENT } from '../../src/indexes/contract.ts';
import { RaceIndex } from '../../src/indexes/race/race.ts';
import { SepHashIndex } from '../../src/indexes/sephash/sephash.ts';
import { eachBucket } from '../../src/indexes/shard/each-bucket.ts';
import { ShardIndex } from '../../src/indexes/shard/shard.ts';
import { isLive } from '../../src/indexes/shard/table/slot.ts';
import { shapeOf } from '../../src/indexes/traversal/count.ts';
import { CHUNK_BYTES } from '../../src/pool/layout.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { type OwnIndex, ownIndex } from '../support/own-index.ts';
import { figure, grouped, percent, table } from '../support/text.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 400_000, minimum: 1000, help: 'keys to insert' },
  looks: { kind: 'integer', fallback: 24, minimum: 2, help: 'samples during the last doubling' },
  indexes: { kind: 'text', fallback: 'race,sephash,shard', help: 'names, with commas' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

/** SHARD Table 4: entries per key, and MB of cache, of an index with 4 Ti keys. */
const PUBLISHED: Record<string, { entriesPerKey: number; cacheMb: number }> = {
  race: { entriesPerKey: 6.44 / 4, cacheMb: 108 },
  sephash: { entriesPerKey: 7.82 / 4, cacheMb: 326.05 },
  shard: { entriesPerKey: 4.83 / 4, cacheMb: 2.36 },
};
const ENTRY_BYTES = 8;
const ADDRESS_BYTES = 8;
/** SHARD: a segment's address, and the start of each of its three levels. */
const WORDS_A_SEGMENT = 4;

interface Look {
  records: number;
  entriesPerKey: number;
  /** Bytes of the whole pool, records included. */
  bytesPerKey: number;
  cacheBytes: number;
  /** SHARD: records in each level, chains last, and the load of levels 1 and 2. */
  levels?: number[];
  load?: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab space', SPEC, argv);
  const runs = options.indexes.split(',').map((name) => ({
    name,
    looks: grow(name, options.records, options.looks),
  }));
  report(runs);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), published: PUBLISHED, runs };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

/** Inserts all records, and takes samples at even steps while their number last doubles. */
function grow(name: string, records: number, looks: number): Look[] {
  const own = ownIndex(name, records);
  const { pool, index } = own;
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const request = index.newRequest();
  const found: Look[] = [];
  const at = (look: number) => Math.floor((records * (looks + look)) / (2 * looks));
  for (let i = 0; i < records; i++) {
    pool.enter();
    index.records.encode(request, keys.bytes(i), values.buffer(i), 1);
    pool.run(index.write(request, IF_ABSENT));
    pool.exit();
    if (i + 1 === at(found.length + 1)) found.push(lookAt(own, i + 1));
  }
  return found;
}

function lookAt({ pool, index }: OwnIndex, records: number): Look {
  const { slots } = pool.run(shapeOf(index));
  const chunks = pool.run(pool.chunks.words()).length;
  const look: Look = {
    records,
    entriesPerKey: slots / records,
    bytesPerKey: (chunks * CHUNK_BYTES) / records,
    cacheBytes: cacheBytesOf(index),
  };
  if (index instanceof ShardIndex) Object.assign(look, levelsOf(pool, index, records));
  return look;
}

function cacheBytesOf(index: OwnIndex['index']): number {
  if (index instanceof RaceIndex) return ADDRESS_BYTES * 2 ** index.table.directory.depth;
  if (index instanceof SepHashIndex) {
    return ADDRESS_BYTES * 2 ** index.table.directory.depth + index.table.cacheBytes;
  }
  if (index instanceof ShardIndex) {
    return ADDRESS_BYTES * WORDS_A_SEGMENT * index.table.segments.addresses.length;
  }
  return Number.NaN;
}

function levelsOf(pool: OwnIndex['pool'], { table: shard }: ShardIndex, records: number) {
  const levels = [0, 0, 0, 0];
  pool.run(
    eachBucket(shard, ({ words: { i32 }, at, entries, level }) => {
      for (let slot = at; slot < at + ENTRY_BYTES * entries; slot += ENTRY_BYTES) {
        if (isLive(i32[slot >> 2], i32[(slot >> 2) + 1])) levels[level]++;
      }
    }),
  );
  return { levels, load: records / shard.geometry.capacityAt(shard.segments.version) };
}

interface Run {
  name: string;
  looks: Look[];
}

function report(runs: readonly Run[]): void {
  const cells = runs.map(({ name, looks }) => {
    const entries = looks.map(({ entriesPerKey }) => entriesPerKey);
    const published = PUBLISHED[name];
    const last = looks[looks.length - 1];
    return [
      name,
      published ? published.entriesPerKey.toFixed(2) : '-',
      ...[Math.min(...entries), meanOf(entries), Math.max(...entries)].map((e) => e.toFixed(2)),
      figure(meanOf(looks.map(({ bytesPerKey }) => bytesPerKey))),
      published ? `${published.cacheMb} MB` : '-',
      `${grouped(last.cacheBytes)} B`,
    ];
  });
  const header = ['', 'paper', 'least', 'mean', 'most', 'B a key', 'paper', 'cache'];
  console.log(table(header, cells));
  const last = runs[0].looks.at(-1)?.records ?? 0;
  console.log(`Entries a key: least, mean and most while the number of keys doubles to ${grouped(last)}, one
client. Bytes a key: all chunks of the pool, with records of one line. Paper: SHARD's Table 4, whose
caches are those of ${grouped(4e12)} keys.`);
  for (const { name, looks } of runs) if (name === 'shard') reportLevels(looks);
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function reportLevels(looks: readonly Look[]): void {
  const cells = looks.map(({ records, load = 0, levels = [] }) => [
    grouped(records),
    percent(load),
    ...levels.map((count) => percent(count / records)),
  ]);
  console.log(`\nSHARD: where the keys are; the paper says more than 97 % in level 1.\n`);
  console.log(table(['keys', 'load', 'level 1', 'level 2', 'level 3', 'chains'], cells));
}
