/**
 * State bytes in front of a chunk's blocks. Only the owner turns 0 to 1; a client that frees, all
 * others to 0. Between them an index may tell its records that are current, so that a lost table
 * can be told from the memory of the records: HStore's server turns 1 to 2 and 2 to 3, and in the
 * block's next use 3 to 4 and 4 to 1. Even ones are current. None comes again before the block is
 * freed, so a CAS of a server that was overtaken fails.
 */
export const BLOCK_FREE = 0;
export const BLOCK_CLAIMED = 1;
export const BLOCK_CURRENT = 2;
const BLOCK_STATES = 4;

export function isCurrentState(state: number): boolean {
  return state !== BLOCK_FREE && state % BLOCK_CURRENT === 0;
}

/** From claimed to current, or from current to claimed. */
export function nextState(state: number): number {
  return (state % BLOCK_STATES) + 1;
}

export function countFree(map: Uint8Array, blocks: number): number {
  let free = 0;
  for (let i = 0; i < blocks; i++) if (map[i] === BLOCK_FREE) free++;
  return free;
}
