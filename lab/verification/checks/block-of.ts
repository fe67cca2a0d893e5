import { blocksPerChunk, type PoolLayout, stateMapBytes } from '../../../src/pool/layout.ts';
import { isCarved, unpackChunk } from '../../../src/pool/memory/chunk-word.ts';
import { type Address, offsetOf, regionOf, UNIT_BYTES } from '../../../src/verbs/index.ts';

/** A block of memory, in lines. */
export interface LinesOfBlock {
  first: number;
  units: number;
}

/** The block that an address is in, as its chunk is carved now; undefined outside of all blocks. */
export function blockOf(
  layout: PoolLayout,
  word: (address: Address) => bigint,
  address: Address,
): LinesOfBlock | undefined {
  const chunk = layout.chunkAt(regionOf(address), offsetOf(address));
  const { state, units } = unpackChunk(word(layout.chunkWord(chunk)));
  if (!isCarved(state)) return undefined;
  const blocks = layout.chunkStart(chunk) + stateMapBytes(blocksPerChunk(units));
  if (address < blocks) return undefined;
  const index = Math.floor((address - blocks) / (units * UNIT_BYTES));
  return { first: blocks / UNIT_BYTES + index * units, units };
}
