import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CATALOG_OFFSET, CLIENTS_OFFSET, SUPERBLOCK } from '../pool/layout.ts';
import { Prng } from '../random/prng.ts';
import type { IndexName, OpenOptions, PoolHandle, Store } from './api.ts';
import { checkPool, inspectPool, openSync } from './open.ts';
import { codeOf } from './test-support/codes.ts';
import { endAfter, type Scope } from './test-support/pools.ts';

const INDEXES: readonly IndexName[] = ['race', 'sephash', 'chime', 'hopscotch'];
const POOL: OpenOptions = { size: 4 * 2 ** 20, maxClients: 8, client: 'test' };
/** Damaged pools of each index; STEPWELL_DAMAGE asks for more, as for a campaign. */
const ROUNDS = Number(process.env.STEPWELL_DAMAGE ?? 3);
const SEED = Number(process.env.STEPWELL_SEED ?? 1);

/** A pool with a store, and what brings it back to how it was. */
class Sample {
  readonly handle: PoolHandle;
  readonly words: BigInt64Array;
  readonly #image: Uint8Array;
  /** Words that say something. */
  readonly used: number[] = [];

  constructor(scope: Scope, index: IndexName) {
    const store = openSync('memory:', { ...POOL, index });
    endAfter(scope, store, (open) => void codeOf(() => open.close()));
    for (let i = 0; i < 300; i++) store.put(`key ${i}`, `value ${i}`.repeat(1 + (i % 9)));
    store.put('long', 'v'.repeat(50_000));
    this.handle = store.handle;
    const [memory] = (store.handle as { memory: SharedArrayBuffer[] }).memory;
    this.words = new BigInt64Array(memory);
    this.#image = new Uint8Array(memory).slice();
    this.words.forEach((word, i) => {
      if (word !== 0n) this.used.push(i);
    });
  }

  restore(): void {
    new Uint8Array(this.words.buffer).set(this.#image);
  }
}

/** Changes one word: of the tables, or any that says something. */
function damage(sample: Sample, random: Prng): string {
  const tables = [
    ...[SUPERBLOCK.frontier, SUPERBLOCK.regionCount, SUPERBLOCK.catalogLock, SUPERBLOCK.sweeper],
    ...[CATALOG_OFFSET, CATALOG_OFFSET + 8, CATALOG_OFFSET + 16, CATALOG_OFFSET + 24],
    ...[CATALOG_OFFSET + 32, CLIENTS_OFFSET, CLIENTS_OFFSET + 128, SUPERBLOCK.freeChunks],
  ];
  const inTables = random.below(3) === 0;
  const { used, words } = sample;
  const at = inTables ? tables[random.below(tables.length)] >> 3 : used[random.below(used.length)];
  const bits = () => BigInt(random.below(2 ** 32)) | (BigInt(random.below(2 ** 32)) << 32n);
  const value = [words[at] ^ (1n << BigInt(random.below(64))), 0n, bits(), bits() >> 40n];
  words[at] = value[random.below(value.length)];
  return `word ${at * 8} = ${words[at].toString(16)}`;
}

/** What a user does with a pool, and what came of it. */
function use(handle: PoolHandle): [call: string, outcome: string][] {
  const outcomes: [string, string][] = [];
  const attempt = (call: string, action: () => unknown) => outcomes.push([call, codeOf(action)]);
  attempt('inspect', () => inspectPool(handle));
  attempt('check', () => checkPool(handle));
  let store: Store | undefined;
  attempt('open', () => {
    store = openSync(handle, { create: false });
  });
  if (store === undefined) return outcomes;
  const opened = store;
  for (let i = 0; i < 300; i += 7) attempt('get', () => opened.get(`key ${i}`));
  attempt('get', () => opened.get('long'));
  for (let i = 0; i < 60; i++) attempt('put', () => opened.put(`key ${i}`, 'w'.repeat(40 * i)));
  for (let i = 60; i < 99; i++) attempt('delete', () => opened.delete(`key ${i}`));
  attempt('delete', () => opened.delete('long'));
  attempt('walk', () => [...opened]);
  attempt('size', () => opened.size);
  attempt('check', () => checkPool(handle));
  attempt('open another', () => openSync(handle, { store: 'another' }).close());
  attempt('close', () => opened.close());
  return outcomes;
}

for (const index of INDEXES) {
  test(`${index}: any damaged word leads to an answer or to an error with a code`, (t) => {
    const sample = new Sample(t, index);
    const random = Prng.fromSeed(SEED);
    const raw: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      sample.restore();
      const what = damage(sample, random);
      for (const [call, outcome] of use(sample.handle)) {
        if (outcome.startsWith('raw')) raw.push(`${what}: ${call}: ${outcome}`);
      }
    }
    sample.restore();
    assert.deepEqual([...new Set(raw)], [], `seed ${SEED}`);
  });
}

test('words that name a client beyond the table, or contradict the layout, are damage', (t) => {
  const sample = new Sample(t, 'race');
  const cases: [at: number, value: bigint, call: () => unknown][] = [
    [SUPERBLOCK.catalogLock, 0xfffn, () => checkPool(sample.handle)],
    [SUPERBLOCK.catalogLock, 0xfffn, () => openSync(sample.handle, { store: 'another' })],
    [SUPERBLOCK.frontier, 0n, () => openSync(sample.handle, { store: 'another' })],
    [SUPERBLOCK.regionCount, 2n ** 40n, () => inspectPool(sample.handle)],
    [CATALOG_OFFSET + 16, 2n ** 62n - 1n, () => openSync(sample.handle)],
  ];
  for (const [at, value, call] of cases) {
    sample.restore();
    sample.words[at >> 3] = value;
    assert.equal(codeOf(call), 'SW_POOL_CORRUPT', `word ${at}: ${call}`);
  }
  sample.restore();
});
