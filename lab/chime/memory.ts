import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { UNIT_BYTES } from '../../src/verbs/index.ts';
import { BYTES_READ } from '../../src/verbs/traffic.ts';
import { figure, grouped, table } from '../support/text.ts';
import { KeyGenerator } from '../workloads/index.ts';
import { loaded, PAPERS_SHAPE } from './loaded.ts';

/** Figure 14: 27.6 MB of internal nodes for 60 million items in each client's cache. */
const PUBLISHED_RECORDS = 60_000_000;
const PUBLISHED_MB = 27.6;
/** Section 4.5: 8.3 bytes of metadata an item of 256 bytes. */
const PUBLISHED_METADATA = 8.3;
const RECORD_HEADER = 16;
const IDENTITY = 8;
const SLOT = 8;
/** Section 3.1: a search READs a neighbourhood of 8 items. */
const PUBLISHED_AMPLIFICATION = 8;
/** What a search is for: the key and value of a record. */
const KEY_AND_VALUE = 16 + 32;
const SAMPLE = 10_000;

export interface MemoryFigures {
  records: number;
  height: number;
  leaves: number;
  /** Of a client that has been everywhere. */
  cacheBytes: number;
  cacheMegabytesAt60M: number;
  metadataPerRecord: number;
  bytesReadPerSearch: number;
}

export function measureMemory(records: number, seed: number): MemoryFigures {
  const { pool, index } = loaded(records, PAPERS_SHAPE, seed);
  const { tree } = index as ChimeIndex;
  const { globalDepth: height, subtables: leaves, slots } = pool.run(index.shape());
  const request = index.newRequest();
  const keys = new KeyGenerator();
  const { rows } = pool.fabric.traffic;
  const find = (record: number) => {
    request.setKey(keys.bytes(record), index.hashSeed);
    return pool.run(index.search(request));
  };
  pool.enter();
  for (let i = 0; i < records; i++) if (!find(i)) throw new Error(`record ${i} is not there`);
  const before = rows[BYTES_READ];
  for (let i = 0; i < SAMPLE; i++) find(i % records);
  const bytesReadPerSearch = (rows[BYTES_READ] - before) / SAMPLE;
  pool.exit();
  const cacheBytes = tree.cache.bytes;
  const metadata = slots * SLOT + leaves * IDENTITY + records * RECORD_HEADER;
  return {
    records,
    height,
    leaves,
    cacheBytes,
    bytesReadPerSearch,
    cacheMegabytesAt60M: ((cacheBytes / records) * PUBLISHED_RECORDS) / 1e6,
    metadataPerRecord: metadata / records,
  };
}

export function describeMemory(figures: MemoryFigures): string {
  const { records, height, leaves, cacheBytes, cacheMegabytesAt60M } = figures;
  const { metadataPerRecord, bytesReadPerSearch } = figures;
  const rows = [
    ['levels of internal nodes', String(height), '<= 5 at 10^9'],
    ['cache, bytes a record', (cacheBytes / records).toFixed(3), ''],
    ['cache at 60 M, MB', figure(cacheMegabytesAt60M), String(PUBLISHED_MB)],
    ['metadata, bytes a record', metadataPerRecord.toFixed(1), String(PUBLISHED_METADATA)],
    ['bytes READ a search', figure(bytesReadPerSearch), ''],
    [
      'of these the neighbourhood',
      '64 = 8 slots',
      `${PUBLISHED_AMPLIFICATION} items (of 16 B: 128)`,
    ],
    ['smallest record, bytes', String(UNIT_BYTES), ''],
    [
      'read amplification: bytes READ to those of key and value',
      (bytesReadPerSearch / KEY_AND_VALUE).toFixed(2),
      `${PUBLISHED_AMPLIFICATION} (section 3.1)`,
    ],
  ];
  const title = `Memory of ${grouped(records)} records in ${grouped(leaves)} leaves`;
  const cells = rows.map((row) => [...row]);
  return `${title} (CHIME, Figures 14 and 16, sections 3.1, 4.5)
${table(['', 'measured', 'published'], cells)}
Metadata here are slots (8 bytes, empty ones too), leaf words and record headers (16 bytes with
checksum, lengths and version); the paper's are bitmaps, versions and replicas of leaf metadata, an
empty entry not counted. The cache at 60 M is the measured bytes a record times 60 million.`;
}
