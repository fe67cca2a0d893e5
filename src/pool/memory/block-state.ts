/**
 * State bytes in front of a chunk's blocks; 0 is free. A client claims blocks by a CAS of the word
 * that holds their bytes, and frees a block by a WRITE of its byte: a claimed block has one holder,
 * so its byte has one writer.
 *
 * The byte of a claimed block also tells in which round of sweeps it was claimed. A sweep can then
 * tell blocks that dead clients left from those that the living have claimed since it began: see
 * indexes/sweep.ts. Rounds repeat after ROUNDS: a block that was lost so many rounds ago is
 * overlooked once.
 *
 * Between claiming and freeing an index may tell its records that are current, so that a lost table
 * can be told from the memory of the records. In round 0, HStore's server turns a claimed byte to 2
 * and 2 to 3, and in the block's next use 3 to 4 and 4 to 1. In round n all are larger by 4n.
 * Even ones are current. None comes again before the block is freed, so a CAS of a server that was
 * overtaken fails.
 */
export const BLOCK_FREE = 0;
export const BLOCK_CURRENT = 2;
const BLOCK_STATES = 4;
const ROUNDS = 63;
/** Held by the client that recycles the chunk: see emptied-chunks.ts. */
export const BLOCK_LOCKED = 255;

/** The byte of a block that is claimed in this round of sweeps. Odd: it is not current. */
export function claimedIn(round: number): number {
  return 1 + BLOCK_STATES * (round % ROUNDS);
}

export function isCurrentState(state: number): boolean {
  return state !== BLOCK_FREE && state % BLOCK_CURRENT === 0;
}

/**
 * From claimed to current, or from current to claimed. It keeps the round: HStore marks a record
 * before it links it, and a sweep that took the marked block for one of an earlier round, and found
 * it linked nowhere, would free it.
 */
export function nextState(state: number): number {
  const claimed = claimedIn(roundOf(state));
  return claimed + ((state - claimed + 1) % BLOCK_STATES);
}

/** Whether the block was claimed in the round of which `claim` is the claimed byte. */
export function isClaimedIn(state: number, claim: number): boolean {
  return roundOf(state) === roundOf(claim);
}

function roundOf(state: number): number {
  return Math.floor((state - 1) / BLOCK_STATES);
}

export function countFree(map: Uint8Array, blocks: number): number {
  let free = 0;
  for (let i = 0; i < blocks; i++) if (map[i] === BLOCK_FREE) free++;
  return free;
}
