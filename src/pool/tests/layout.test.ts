import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../store/tests/support/codes.ts';
import { offsetOf, regionOf, UNIT_BYTES } from '../../verbs/index.ts';
import {
  BLOCK_UNITS_MAX,
  blocksPerChunk,
  CATALOG_ENTRIES,
  CATALOG_ENTRY_BYTES,
  CATALOG_OFFSET,
  CHUNK_BYTES,
  CLIENT_ENTRY_BYTES,
  CLIENTS_OFFSET,
  PoolLayout,
  type PoolParameters,
  stateMapBytes,
} from '../layout.ts';

const PARAMETERS: PoolParameters = {
  regionBytes: 8 * 2 ** 20,
  regionsMax: 4,
  clientsMax: 16,
  createdAt: 0,
  poolId: 0,
};

test('a chunk holds as many blocks as fit beside their states, whatever their size', () => {
  for (let units = 1; units <= BLOCK_UNITS_MAX; units++) {
    const blocks = blocksPerChunk(units);
    const used = (count: number) => stateMapBytes(count) + count * units * UNIT_BYTES;
    assert.ok(blocks >= 1, `${units}`);
    assert.ok(used(blocks) <= CHUNK_BYTES, `${units}: ${blocks} do not fit`);
    assert.ok(used(blocks + 1) > CHUNK_BYTES, `${units}: one more would fit`);
    assert.ok(stateMapBytes(blocks) >= blocks);
    assert.equal(stateMapBytes(blocks) % UNIT_BYTES, 0);
  }
});

test('eight continuations fill a chunk', () => {
  assert.equal(blocksPerChunk(511), 8);
});

test('the tables of a pool do not overlap', () => {
  const layout = new PoolLayout(PARAMETERS);
  assert.ok(CATALOG_OFFSET + CATALOG_ENTRIES * CATALOG_ENTRY_BYTES <= CLIENTS_OFFSET);
  assert.equal(layout.clientEntry(1), CLIENTS_OFFSET);
  assert.ok(layout.clientEntry(16) + CLIENT_ENTRY_BYTES <= layout.chunkWord(0));
  const end = layout.chunkWord(layout.chunksMax - 1) + 8;
  assert.ok(end <= layout.reservedChunks * CHUNK_BYTES);
  assert.equal(layout.chunksMax, 4 * 32);
});

test('chunk words of regions that were added stand at their start, apart from chunks', () => {
  for (const nodes of [1, 2]) {
    const layout = new PoolLayout({ ...PARAMETERS, nodes });
    const before = layout.chunksMax;
    layout.raise(10);
    assert.equal(layout.bytesMax, 10 * PARAMETERS.regionBytes);
    const words = new Set<number>();
    const tables = new Set<number>();
    for (let chunk = 0; chunk < layout.chunksMax; chunk++) {
      const word = layout.chunkWord(chunk);
      words.add(word);
      if (chunk < before) assert.equal(regionOf(word), 0);
      else tables.add(layout.chunkAt(regionOf(word), offsetOf(word)));
      assert.ok(regionOf(word) < layout.regionsForWord(chunk));
      const inPiece = layout.chunkWord(chunk + layout.wordsFrom(chunk) - 1) - word;
      assert.equal(inPiece, 8 * (layout.wordsFrom(chunk) - 1));
    }
    assert.equal(words.size, layout.chunksMax);
    assert.equal(layout.tableChunks, layout.reservedChunks + tables.size);
    for (let chunk = before; chunk < layout.chunksMax; chunk++) {
      assert.equal(layout.isAddedTable(chunk), tables.has(chunk), `chunk ${chunk} of ${nodes}`);
    }
    throwsCode('SW_POOL_CORRUPT', () => layout.raise(1025));
  }
});

test('chunks follow one another, region by region', () => {
  const layout = new PoolLayout(PARAMETERS);
  for (let chunk = 0; chunk < layout.chunksMax; chunk++) {
    const start = layout.chunkStart(chunk);
    assert.equal(regionOf(start), Math.floor(chunk / 32));
    assert.equal(offsetOf(start), (chunk % 32) * CHUNK_BYTES);
    assert.equal(layout.chunkWord(chunk) % 8, 0);
  }
});

test('a pool too small for its tables is refused', () => {
  throwsCode(
    'SW_POOL_TOO_SMALL',
    () => new PoolLayout({ ...PARAMETERS, regionBytes: CHUNK_BYTES }),
  );
  throwsCode(
    'SW_POOL_TOO_SMALL',
    () => new PoolLayout({ ...PARAMETERS, regionBytes: 4 * CHUNK_BYTES, clientsMax: 4095 }),
  );
  assert.equal(new PoolLayout({ ...PARAMETERS, regionBytes: 4 * CHUNK_BYTES }).reservedChunks, 1);
});
