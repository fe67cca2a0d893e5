import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { ChimeGeometry, chimeShape } from '../../src/indexes/chime/geometry.ts';
import { shapeOf } from '../../src/indexes/traversal/count.ts';
import { UNIT_BYTES } from '../../src/verbs/index.ts';
import { BYTES_READ } from '../../src/verbs/traffic.ts';
import { figure, grouped, table } from '../support/text.ts';
import { KEY_BYTES, keyOf, loaded, PAPERS_SHAPE, VALUE_BYTES } from './loaded.ts';

/** Figure 14: 27.6 MB of internal nodes for 60 million items in each client's cache. */
const PUBLISHED_RECORDS = 60_000_000;
const PUBLISHED_MB = 27.6;
/** Section 4.5: bytes of metadata of an item. */
const publishedMetadata = (bytes: number) => 3 + bytes / 63 + 10 / PAPERS_SHAPE.neighbourhood;
/** Section 5.3: by key length, how much larger metadata is without sibling-based validation. */
const PUBLISHED_FENCES: Readonly<Record<number, string>> = { 8: '1.4 x', 256: '8.6 x' };
const KEY_SIZES = [8, 16, 64, 256];
const LARGE_ITEM = 240;
const SAMPLE = 10_000;

interface MemoryFigures {
  records: number;
  height: number;
  leaves: number;
  /** The cache of a client that has visited every node. */
  cacheBytes: number;
  cacheMegabytesAt60M: number;
  metadataPerItem: { itemBytes: number; bytes: number; published: number }[];
  bytesReadPerSearch: number;
  neighbourhoodBytes: number;
  /** Bytes that a search READs of a leaf beside its entries, by key length (Figure 16). */
  leafMetadata: { keyBytes: number; bytes: number; withFences: number }[];
}

export function measureMemory(records: number, seed: number): MemoryFigures {
  const own = loaded(records, PAPERS_SHAPE, seed);
  const { pool } = own;
  const { tree } = own.index as ChimeIndex;
  const { globalDepth: height, subtables: leaves } = pool.run(shapeOf(own.index));
  const bytesReadPerSearch = bytesOfSearches(own, records);
  const { neighbourhood } = PAPERS_SHAPE;
  const neighbourhoodBytes = neighbourhood * tree.geometry.entryBytes;
  const cacheBytes = tree.cache.bytes;
  const few = Math.min(records, 5000);
  return {
    records,
    height,
    leaves,
    cacheBytes,
    bytesReadPerSearch,
    neighbourhoodBytes,
    cacheMegabytesAt60M: ((cacheBytes / records) * PUBLISHED_RECORDS) / 1e6,
    metadataPerItem: [KEY_BYTES + VALUE_BYTES, LARGE_ITEM].map((itemBytes) => ({
      itemBytes,
      bytes: metadataOf(itemBytes),
      published: publishedMetadata(itemBytes),
    })),
    leafMetadata: KEY_SIZES.map((keyBytes) => {
      const bytes = leafMetadataOf(few, keyBytes, seed);
      // Two fence keys instead of the replicated link to the sibling.
      return { keyBytes, bytes, withFences: bytes + 2 * keyBytes };
    }),
  };
}

/** Bytes per entry of a leaf besides key and value. */
function metadataOf(itemBytes: number): number {
  const shape = chimeShape({ ...PAPERS_SHAPE, inlineBytes: itemBytes }, 0);
  const { leafUnits } = new ChimeGeometry(shape);
  return (leafUnits * UNIT_BYTES) / shape.span - itemBytes;
}

/** Mean bytes that a search READs once its client has cached everything. */
function bytesOfSearches(
  { pool, index }: ReturnType<typeof loaded>,
  records: number,
  keyBytes?: number,
): number {
  const request = index.newRequest();
  const { rows } = pool.fabric.traffic;
  const find = (record: number) => {
    request.setKey(keyOf(record, keyBytes), index.records.seed);
    return pool.run(index.search(request));
  };
  pool.enter();
  for (let i = 0; i < records; i++) if (!find(i)) throw new Error(`record ${i} is not there`);
  const before = rows[BYTES_READ];
  for (let i = 0; i < SAMPLE; i++) find(i % records);
  pool.exit();
  return (rows[BYTES_READ] - before) / SAMPLE;
}

/** Longer keys are stored in separate records, which are not metadata. */
function leafMetadataOf(records: number, keyBytes: number, seed: number): number {
  const own = loaded(records, PAPERS_SHAPE, seed, keyBytes);
  const { geometry } = (own.index as ChimeIndex).tree;
  const entries = PAPERS_SHAPE.neighbourhood * geometry.entryBytes;
  const isInline = geometry.fitsInline(keyBytes, VALUE_BYTES);
  const record = isInline ? 0 : Math.ceil((16 + keyBytes + VALUE_BYTES) / UNIT_BYTES) * UNIT_BYTES;
  return bytesOfSearches(own, records, keyBytes) - entries - record;
}

export function describeMemory(figures: MemoryFigures): string {
  const { records, height, leaves, cacheBytes, cacheMegabytesAt60M, metadataPerItem } = figures;
  const { bytesReadPerSearch, neighbourhoodBytes, leafMetadata } = figures;
  const rows = [
    ['levels of internal nodes', String(height), '<= 5 at 10^9'],
    ['cache, bytes a record', (cacheBytes / records).toFixed(3), '0.46'],
    ['cache at 60 M, MB', figure(cacheMegabytesAt60M), String(PUBLISHED_MB)],
    ...metadataPerItem.map(({ itemBytes, bytes, published }) => [
      `metadata of an item of ${itemBytes} bytes`,
      bytes.toFixed(1),
      published.toFixed(1),
    ]),
    ['bytes READ a search', figure(bytesReadPerSearch), ''],
    ['of these the neighbourhood', String(neighbourhoodBytes), '8 items'],
    ...leafMetadata.map(({ keyBytes, bytes, withFences }) => [
      `leaf metadata READ, keys of ${keyBytes}; with fence keys`,
      `${bytes.toFixed(0)}; ${(withFences / bytes).toFixed(1)} x`,
      PUBLISHED_FENCES[keyBytes] ?? 'only drawn',
    ]),
  ];
  const title = `Memory of ${grouped(records)} records in ${grouped(leaves)} leaves`;
  return `${title} (CHIME, Figures 14 and 16, section 4.5)
${table(['', 'measured', 'published'], rows)}`;
}
