import type { Address } from '../../verbs/index.ts';
import { clientWord } from '../clients/client-word.ts';
import type { Membership } from '../clients/membership.ts';
import { INTENT_BYTES, INTENTS_PER_CLIENT, type PoolLayout } from '../layout.ts';
import { fullError } from '../memory/chunk-memory.ts';
import type { ChunkTable } from '../memory/chunks.ts';
import { lockedHigh, lockedLow } from './lock-word.ts';

/** The last slot is for repairs: operations that wait for dead clients may hold all the others. */
const REPAIR_SLOT = INTENTS_PER_CLIENT - 1;
export const NO_SLOT = -1;

/** This client's intent slots: an operation holds one from before its lock until its unlock. */
export class IntentSlots {
  readonly #layout: PoolLayout;
  readonly #membership: Membership;
  readonly #chunks: ChunkTable;
  /** A bit for each slot that no operation holds. */
  #free = 2 ** INTENTS_PER_CLIENT - 1;
  /** How often a slot came free: operations that wait for one see others go on. */
  given = 0;
  readonly #tickets = new Int32Array(INTENTS_PER_CLIENT);
  /** Of the row whose slots are in memory. */
  #reservedFor = 0;

  constructor(layout: PoolLayout, membership: Membership, chunks: ChunkTable) {
    this.#layout = layout;
    this.#membership = membership;
    this.#chunks = chunks;
  }

  /** A slot, or NO_SLOT while the operations of this client hold all. Raises SW_POOL_FULL. */
  take(): number {
    const free = this.#free & ~(1 << REPAIR_SLOT);
    return free === 0 ? NO_SLOT : this.#hold(31 - Math.clz32(free & -free));
  }

  takeForRepair(): number {
    return (this.#free & (1 << REPAIR_SLOT)) === 0 ? NO_SLOT : this.#hold(REPAIR_SLOT);
  }

  /** Ahead of need: when records have filled the file system it is too late to lock anything. */
  prepare(): void {
    try {
      this.#reserve();
    } catch (error) {
      // The first lock tries again: a client that only reads needs none.
      fullError(error);
    }
  }

  /**
   * Takes the memory of this client's slots from the operating system: a full file system must be
   * an error, not a bus error at a WRITE. Raises SW_POOL_FULL.
   */
  #reserve(): void {
    const { id } = this.#membership;
    if (this.#reservedFor === id) return;
    const bytes = INTENTS_PER_CLIENT * INTENT_BYTES;
    this.#chunks.reserve(this.#layout.intentSlot(0, id, 0), bytes);
    this.#reservedFor = id;
  }

  #hold(slot: number): number {
    this.#reserve();
    this.#free &= ~(1 << slot);
    return slot;
  }

  give(slot: number): void {
    this.#free |= 1 << slot;
    this.given++;
  }

  /** Where the slot stands on a memory node. */
  address(node: number, slot: number): Address {
    return this.#layout.intentSlot(node, this.#membership.id, slot);
  }

  nextTicket(slot: number): number {
    return ++this.#tickets[slot];
  }

  /** The owner word of the slot's operation with this ticket. */
  wordLow(ticket: number, node: number, slot: number): number {
    return lockedLow(ticket, node, slot);
  }

  wordHigh(ticket: number): number {
    return lockedHigh(clientWord(this.#membership), ticket);
  }
}
