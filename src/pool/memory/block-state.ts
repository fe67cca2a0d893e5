import { invariant } from '../../errors.ts';

/**
 * State bytes in front of a chunk's blocks; 0 is free. A client claims blocks by a CAS of the word
 * that holds their bytes. It frees a block by a WRITE of its byte: a claimed block has one holder,
 * so its byte has one writer.
 *
 * The byte of a claimed block also contains the round of sweeps in which it was claimed. A round is
 * a sweep and the time until the next one. So a sweep can distinguish blocks that dead clients left
 * from those that living clients have claimed since it began: see indexes/sweep.ts. Rounds repeat
 * after ROUNDS: a sweep overlooks a block that was lost exactly that many rounds ago, and the next
 * one finds it.
 *
 * While a block is claimed, an index may mark it as current, so that it can rebuild a lost table
 * from the memory of the records. In round 0, HStore's server turns a claimed byte to 2 and 2 to 3,
 * and in the block's next use 3 to 4 and 4 to 1. In round n all values are larger by 4n. Even
 * values are current. No value recurs before the block is freed, so the CAS of an overtaken server
 * fails.
 */
export const BLOCK_FREE = 0;
export const BLOCK_CURRENT = 2;
const BLOCK_STATES = 4;
const ROUNDS = 63;
/** Locked by the client that recycles the chunk: see emptied-chunks.ts. */
export const BLOCK_LOCKED = 255;

/** The byte of a block that is claimed in this round of sweeps. Odd: it is not current. */
export function claimedIn(round: number): number {
  return 1 + BLOCK_STATES * (round % ROUNDS);
}

export function isCurrentState(state: number): boolean {
  return state !== BLOCK_FREE && state % BLOCK_CURRENT === 0;
}

/**
 * From claimed to current, or from current to claimed. It keeps the round, because HStore marks a
 * record before it links it: a sweep would find a block of an earlier round unlinked, and free it.
 */
export function nextState(state: number): number {
  invariant(state !== BLOCK_FREE && state !== BLOCK_LOCKED, 'a free block is marked');
  const claimed = claimedIn(roundOf(state));
  return claimed + ((state - claimed + 1) % BLOCK_STATES);
}

/** Whether the block was claimed in the same round as the byte `claim`. */
export function isClaimedIn(state: number, claim: number): boolean {
  return roundOf(state) === roundOf(claim);
}

function roundOf(state: number): number {
  return Math.floor((state - 1) / BLOCK_STATES);
}
