import type { CheckSink, Index } from '../../../src/indexes/contract.ts';
import { control } from '../../../src/pool/control.ts';
import { blocksPerChunk, stateMapBytes } from '../../../src/pool/layout.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { BLOCK_FREE } from '../../../src/pool/memory/block-state.ts';
import { holdsBlocks, unpackChunk } from '../../../src/pool/memory/chunk-word.ts';
import { type Address, UNIT_BYTES } from '../../../src/verbs/index.ts';
import type { Subject } from '../subjects/subject.ts';

/** Clients that may hold a claimed block that no key reaches. */
export interface Holders {
  living: readonly LocalPool[];
  /** Whether the block is lost with a dead client. */
  isLost(address: Address, units: number): boolean;
  /** Blocks of what living clients have given up, and others may do yet. */
  pending: readonly Address[];
  /** Operations that died in flight or were given up: each may have left a slot it had claimed. */
  ended: number;
}

/**
 * Checks a table that no client is using, then accounts for the pool's memory apart from the pool's
 * own bookkeeping. Every block is free or claimed. A claimed one is reached by exactly one slot,
 * held by a living client, or lost with a dead one. Returns what is wrong.
 */
export function account(
  pool: LocalPool,
  subject: Subject,
  index: Index,
  holders: Holders,
): string[] {
  const problems: string[] = [];
  const reached = new Map<Address, number>();
  const sink: CheckSink = {
    problem: (text) => problems.push(text),
    reachable: (address, units) => {
      if (reached.has(address)) problems.push(`block ${address} is reached twice`);
      reached.set(address, units);
    },
    progress: () => {},
  };
  // A check of CHIME first finishes what others have left: it replaces nodes.
  pool.run(pool.reclamation.duringEpoch(() => index.check(sink)));
  const held = blocksHeldBy(holders.living);
  for (const block of holders.pending) held.add(block);
  const pending = pool.run(subject.pending(index));
  for (const block of pending) held.add(block);
  if (subject.pendingBlocks) {
    for (const block of pool.run(subject.pendingBlocks(index))) held.add(block);
  }
  if (pending.length > holders.ended) {
    const why = `${holders.ended} calls crashed or were given up`;
    problems.push(`${pending.length} records are pending, ${why}`);
  }
  for (const [chunk, word] of pool.run(pool.chunks.words())) {
    const { state, units } = unpackChunk(word);
    if (!holdsBlocks(state)) continue;
    for (const address of claimedBlocks(pool, chunk, units)) {
      if (reached.get(address) === units) reached.delete(address);
      else if (!held.has(address) && !holders.isLost(address, units)) {
        problems.push(`block ${address} of ${units} lines is claimed, and nobody has it`);
      }
    }
  }
  for (const [address, units] of reached) {
    problems.push(`block ${address} of ${units} lines is in use and not claimed`);
  }
  return problems;
}

function blocksHeldBy(pools: readonly LocalPool[]): Set<Address> {
  const held = new Set<Address>();
  for (const { allocator, reclamation } of pools) {
    for (const address of reclamation.waiting()) held.add(address);
    for (const { cache } of allocator.classes()) for (const address of cache) held.add(address);
  }
  return held;
}

function* claimedBlocks(pool: LocalPool, chunk: number, units: number): Generator<Address> {
  const blocks = blocksPerChunk(units);
  const start = pool.layout.chunkStart(chunk);
  const first = start + stateMapBytes(blocks);
  const states = pool.run(control.readBytes(start, stateMapBytes(blocks)));
  for (let i = 0; i < blocks; i++) {
    if (states[i] !== BLOCK_FREE) yield first + i * units * UNIT_BYTES;
  }
}
