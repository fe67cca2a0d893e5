import { checkTable } from '../indexes/race/check.ts';
import type { RaceIndex } from '../indexes/race/race.ts';
import { eachBucket } from '../indexes/race/shape.ts';
import { isLive, isVacant, lengthOf, pointerOf } from '../indexes/race/slot.ts';
import { BLOCK_CLAIMED } from '../pool/allocator.ts';
import { CHUNK_BLOCKS, unpackChunk } from '../pool/chunks.ts';
import { control } from '../pool/control.ts';
import { blocksPerChunk, stateMapBytes } from '../pool/layout.ts';
import type { Pool } from '../pool/pool.ts';
import { type Address, type Operation, UNIT_BYTES } from '../verbs/index.ts';

/** Who may hold a claimed block that no key reaches. */
export interface Holders {
  living: readonly Pool[];
  /** Whether the block went down with a client that died. */
  isLost(address: Address, chunk: number): boolean;
  /** Operations that died in flight: each may have left a slot that it had claimed. */
  crashed: number;
}

/**
 * Checks a table that nobody is using, then accounts for the pool's memory apart from what the pool
 * thinks of it: every block is free, or claimed and then reached by exactly one slot, held by a
 * living client, or lost with a dead one. Returns what is wrong.
 */
export function account(pool: Pool, index: RaceIndex, holders: Holders): string[] {
  const problems: string[] = [];
  const reached = new Map<Address, number>();
  pool.run(
    checkTable(index.table, {
      problem: (text) => problems.push(text),
      reachable: (address, units) => {
        if (reached.has(address)) problems.push(`block ${address} is reached twice`);
        reached.set(address, units);
      },
      progress: () => {},
    }),
  );
  const held = blocksHeldBy(holders.living);
  const pending = pool.run(pendingSlots(index));
  for (const slot of pending) for (const block of pool.run(blocksOf(index, slot))) held.add(block);
  if (pending.length > holders.crashed) {
    problems.push(`${pending.length} slots are pending, ${holders.crashed} insertions crashed`);
  }
  for (const [chunk, word] of pool.run(pool.chunks.words())) {
    const { state, units } = unpackChunk(word);
    if (state !== CHUNK_BLOCKS) continue;
    for (const address of claimedBlocks(pool, chunk, units)) {
      if (reached.get(address) === units) reached.delete(address);
      else if (!held.has(address) && !holders.isLost(address, chunk)) {
        problems.push(`block ${address} of ${units} lines is claimed, and nobody has it`);
      }
    }
  }
  for (const [address, units] of reached) {
    problems.push(`block ${address} of ${units} lines is in use and not claimed`);
  }
  return problems;
}

interface PendingSlot {
  record: Address;
  units: number;
}

/** Insertions that nobody commits or withdraws any more, until their keys are met. */
function* pendingSlots({ table }: RaceIndex): Operation<PendingSlot[]> {
  const found: PendingSlot[] = [];
  yield* eachBucket(table, ({ i32 }, at) => {
    for (let word = (at >> 2) + 2; word < (at + table.geometry.bucketBytes) >> 2; word += 2) {
      const low = i32[word];
      const high = i32[word + 1];
      if (isVacant(low, high) || isLive(low, high)) continue;
      found.push({ record: pointerOf(low, high), units: lengthOf(high) });
    }
  });
  return found;
}

/** The blocks of a pending record, which was written before its slot was claimed. */
function* blocksOf({ table }: RaceIndex, { record, units }: PendingSlot): Operation<Address[]> {
  const request = table.newRequest();
  yield* table.records.adopt(request, record, units, table.geometry.shape.seed);
  return (yield* table.records.foundBlocks(request, record)).map(({ address }) => address);
}

function blocksHeldBy(pools: readonly Pool[]): Set<Address> {
  const held = new Set<Address>();
  for (const { allocator, reclamation } of pools) {
    for (const address of reclamation.waiting()) held.add(address);
    for (const { cache } of allocator.classes()) for (const address of cache) held.add(address);
  }
  return held;
}

function* claimedBlocks(pool: Pool, chunk: number, units: number): Generator<Address> {
  const blocks = blocksPerChunk(units);
  const start = pool.layout.chunkStart(chunk);
  const first = start + stateMapBytes(blocks);
  const states = pool.run(control.readBytes(start, stateMapBytes(blocks)));
  for (let i = 0; i < blocks; i++) {
    if (states[i] === BLOCK_CLAIMED) yield first + i * units * UNIT_BYTES;
  }
}
