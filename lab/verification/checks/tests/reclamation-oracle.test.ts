import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LocalPool } from '../../../../src/pool/local-pool.ts';
import { Batch, Scratch, UNIT_BYTES } from '../../../../src/verbs/index.ts';
import { AdversaryFabric, AdversaryMemory } from '../../schedules/adversary.ts';
import { ReclamationOracle } from '../reclamation-oracle.ts';

const BLOCK = 4096;
const UNITS = 2;

/**
 * A client that has given the block back, and keeps it in reserve; what another one is told. With
 * `allocatedBy`, after that client has allocated the block.
 */
function afterFree(
  change: (batch: Batch, words: Scratch, cache: number[]) => Batch,
  nowUnits = UNITS,
  allocatedBy?: number,
): string[] {
  const memory = new AdversaryMemory(1, 8192);
  const failures: string[] = [];
  const view = {
    now: () => 1,
    lastStep: () => 0,
    inOperation: () => [],
    blockOf: () => ({ first: BLOCK / UNIT_BYTES, units: nowUnits }),
  };
  const oracle = new ReclamationOracle(memory, view, (text) => failures.push(text));
  const cache: number[] = [];
  const newPool = () => {
    const allocator = {
      free: (address: number) => cache.push(address),
      classes: () => [{ cache }],
      // biome-ignore lint/correctness/useYield: this client holds the block already
      *allocate() {
        return BLOCK;
      },
      discard() {},
      *refill() {},
      *readMaps() {},
    };
    return { allocator, reclamation: { retire() {} } } as unknown as LocalPool;
  };
  const pools = [newPool(), newPool()];
  for (const [client, pool] of pools.entries()) oracle.watch(client, pool);
  pools[0].allocator.free(BLOCK, UNITS, 1);
  if (allocatedBy !== undefined) pools[allocatedBy].allocator.allocate(1, UNITS).next();
  const words = new Scratch(128);
  new AdversaryFabric(memory, 1).execute(change(new Batch(), words, cache));
  return failures;
}

test('a block that was given back is neither read nor changed until it is used again', () => {
  const wrong: [string, (batch: Batch, words: Scratch) => Batch][] = [
    ['reads', (batch, words) => batch.read(BLOCK + 64, 8, words, 0)],
    ['changes', (batch, words) => batch.cas(BLOCK, words, 0)],
    ['changes', (batch, words) => batch.faa(BLOCK + 8, words, 0)],
    ['writes into', (batch, words) => batch.write(BLOCK, 8, words, 0)],
  ];
  for (const [what, change] of wrong) {
    const [failure] = afterFree(change);
    assert.match(failure, new RegExp(`client 1 ${what} block`));
  }
});

test('a client reads a block that it has allocated before anything is written to it', () => {
  const read = (batch: Batch, words: Scratch) => batch.read(BLOCK + 64, 8, words, 0);
  assert.deepEqual(afterFree(read, UNITS, 1), []);
  const [failure] = afterFree(read, UNITS, 0);
  assert.match(failure, /client 1 reads block/);
  const change = (batch: Batch, words: Scratch) => batch.cas(BLOCK, words, 0);
  assert.match(afterFree(change, UNITS, 1)[0], /client 1 changes block/);
});

test('who has taken it from the reserve may write it, and then do anything', () => {
  const failures = afterFree((batch, words, cache) => {
    cache.length = 0;
    return batch
      .write(BLOCK, 64, words, 0)
      .cas(BLOCK, words, 0)
      .read(BLOCK + 64, 8, words, 0);
  });
  assert.deepEqual(failures, []);
});

test('a block is in use as large as it is now, whatever size was given back there', () => {
  const writeFirst = (batch: Batch, words: Scratch, cache: number[]) => {
    cache.length = 0;
    return batch.write(BLOCK, 64, words, 0).read(BLOCK, UNITS * UNIT_BYTES, words, 0);
  };
  assert.deepEqual(afterFree(writeFirst, UNITS), []);
  const [failure] = afterFree(writeFirst, UNITS - 1);
  assert.match(failure, /client 1 reads block/);
});
