import { invariant } from '../../errors.ts';

/** A 64-bit word as two halves. */
export interface Word {
  low: number;
  high: number;
}

/**
 * A lock is two words: the owner, and then the identity of what is locked.
 *
 *   free     0 | the identity's other 63 bits
 *   retired  1 | 0: the locked thing no longer exists, and its identity is erased
 *   locked   high half: 1 | ticket's highest 3 bits | client 28 (row and incarnation)
 *            low half:  ticket's lower 19 bits | memory node 8 | slot 5
 *
 * So a CAS from "free" fails if the block holds anything else by now, and a locked word leads to
 * the intent slot of its operation. The ticket counts the operations of a slot, so it tells to
 * which of them the intent in the slot belongs.
 */
const LOCKED = 1 << 31;
const CLIENT_BITS = 28;
const CLIENT_MASK = 2 ** CLIENT_BITS - 1;
const SLOT_BITS = 5;
const NODE_BITS = 8;
const LOW_TICKET_SHIFT = SLOT_BITS + NODE_BITS;
const LOW_TICKET_BITS = 32 - LOW_TICKET_SHIFT;
const TICKET_MASK = 2 ** (LOW_TICKET_BITS + 3) - 1;

export const OWNER_AT = 0;
export const IDENTITY_AT = 8;
export const LOCK_BYTES = 16;

/** The owner word of a retired lock: locked, but by no client. */
export const RETIRED: Word = { low: 0, high: LOCKED };

export function isLocked(high: number): boolean {
  return high < 0;
}

/** The high half of a free owner word; the low half is the identity's. */
export function freeHigh(identityHigh: number): number {
  return identityHigh & ~LOCKED;
}

export function lockedHigh(client: number, ticket: number): number {
  // Without a client this could be RETIRED.
  invariant((client & 0xfff) !== 0 && client <= CLIENT_MASK, 'a lock names no client');
  const upper = (ticket & TICKET_MASK) >>> LOW_TICKET_BITS;
  return LOCKED | (upper << CLIENT_BITS) | client;
}

export function lockedLow(ticket: number, node: number, slot: number): number {
  invariant(node < 2 ** NODE_BITS && slot < 2 ** SLOT_BITS, `no lock word for node ${node}`);
  return (ticket << LOW_TICKET_SHIFT) | (node << SLOT_BITS) | slot;
}

/** The client of a locked word, as clients/client-word.ts has it. */
export function clientOf({ high }: Word): number {
  return high & CLIENT_MASK;
}

export function nodeOf({ low }: Word): number {
  return (low >>> SLOT_BITS) & (2 ** NODE_BITS - 1);
}

export function slotOf({ low }: Word): number {
  return low & (2 ** SLOT_BITS - 1);
}

export function isSame(one: Word, other: Word): boolean {
  return one.low === other.low && one.high === other.high;
}
