import { invariant } from '../../errors.ts';
import { type Address, NULL_ADDRESS, type Operation } from '../../verbs/index.ts';
import { clientWord } from '../clients/client-word.ts';
import type { Membership } from '../clients/membership.ts';
import { control } from '../control.ts';
import {
  CHUNK_BYTES,
  CLIENTS_PER_INTENT_CHUNK,
  INTENT_BYTES,
  INTENTS_PER_CLIENT,
  type PoolLayout,
} from '../layout.ts';
import { CHUNK_INTENTS, ownedWord } from '../memory/chunk-word.ts';
import type { ChunkTable } from '../memory/chunks.ts';
import { lockedHigh, lockedLow } from './lock-word.ts';

/** The last slot is for repairs: operations that wait for dead clients may hold all the others. */
const REPAIR_SLOT = INTENTS_PER_CLIENT - 1;
const ALL = (2 ** INTENTS_PER_CLIENT - 1) | 0;
export const NO_SLOT = -1;

/**
 * This client's intent slots: an operation holds one from before its lock until its unlock.
 *
 * The slots of eight rows on a memory node share a chunk. The first of these clients that opens a
 * store with locks allocates the chunk, which is never freed. A word for each group and node names
 * it. So a pool without such stores spends no memory on slots, and a client that has opened one can
 * lock even when the pool is full.
 */
export class IntentSlots {
  readonly #layout: PoolLayout;
  readonly #membership: Membership;
  readonly #chunks: ChunkTable;
  /** By group and node: the chunks' addresses, as far as this client knows them. */
  readonly #starts: Address[] = [];
  /** By node: the address of this client's slots. */
  readonly #own: Address[] = [];
  /** A bit for each slot that no operation holds. */
  #free = ALL;
  /** How often a slot was given back, so that operations that wait for one can see progress. */
  given = 0;
  readonly #tickets = new Int32Array(INTENTS_PER_CLIENT);

  constructor(layout: PoolLayout, membership: Membership, chunks: ChunkTable) {
    this.#layout = layout;
    this.#membership = membership;
    this.#chunks = chunks;
  }

  /** Makes sure that this client has slots on every memory node. Raises SW_POOL_FULL. */
  *open(): Operation<void> {
    const { id } = this.#membership;
    for (let node = this.#own.length; node < this.#layout.stripe; node++) {
      const start = (yield* this.#find(id, node)) || (yield* this.#make(id, node));
      this.#own[node] = slotIn(start, id, 0);
    }
  }

  /** A slot, or NO_SLOT while the operations of this client hold all. */
  take(): number {
    const free = this.#free & ~(1 << REPAIR_SLOT);
    return free === 0 ? NO_SLOT : this.#hold(31 - Math.clz32(free & -free));
  }

  takeForRepair(): number {
    return (this.#free & (1 << REPAIR_SLOT)) === 0 ? NO_SLOT : this.#hold(REPAIR_SLOT);
  }

  #hold(slot: number): number {
    this.#free &= ~(1 << slot);
    return slot;
  }

  give(slot: number): void {
    invariant((this.#free & (1 << slot)) === 0, 'an intent slot is given back twice');
    this.#free |= 1 << slot;
    this.given++;
  }

  /** Whether no operation holds a slot, and none has kept one because it failed under its lock. */
  get areFree(): boolean {
    return this.#free === ALL;
  }

  /** The address of one of this client's slots on a memory node. */
  address(node: number, slot: number): Address {
    const start = this.#own[node];
    invariant(start > 0 && slot >= 0, 'a client uses an intent slot that it does not hold');
    return start + slot * INTENT_BYTES;
  }

  /** The address of any client's slot; NULL_ADDRESS if its group has none. */
  *locate(node: number, id: number, slot: number): Operation<Address> {
    const start = yield* this.#find(id, node);
    return start === NULL_ADDRESS ? start : slotIn(start, id, slot);
  }

  /** The chunk with the slots of a row's group, or NULL_ADDRESS. Raises SW_POOL_CORRUPT. */
  *#find(id: number, node: number): Operation<Address> {
    const group = groupOf(id);
    const at = group * this.#layout.stripe + node;
    const known = this.#starts[at];
    if (known !== undefined) return known;
    const chunk = Number(yield* control.load(this.#layout.intentChunkWord(group, node)));
    if (chunk === 0) return NULL_ADDRESS;
    invariant(yield* this.#chunks.isChunk(chunk), `intent slots in chunk ${chunk}`);
    const { state, units } = yield* this.#chunks.wordOf(chunk);
    const isIt = state === CHUNK_INTENTS && units === group;
    invariant(isIt && this.#layout.nodeOfChunk(chunk) === node, `intent slots in chunk ${chunk}`);
    this.#starts[at] = this.#layout.chunkStart(chunk);
    return this.#starts[at];
  }

  /**
   * Takes a zeroed chunk and names it. If another client of the group was faster, frees the chunk
   * again. If this client dies in between, `ChunkTable.settleOwned` does.
   */
  *#make(id: number, node: number): Operation<Address> {
    const group = groupOf(id);
    const { incarnation } = this.#membership;
    const own = ownedWord(CHUNK_INTENTS, 0, group, { owner: id, incarnation });
    const chunk = yield* this.#chunks.takeSpan(own, 1, CHUNK_BYTES, node);
    const word = this.#layout.intentChunkWord(group, node);
    const isFirst = yield* control.swap(word, 0n, BigInt(chunk));
    if (isFirst) {
      const unowned = { ...own, owner: 0, incarnation: 0 };
      const isOwn = yield* this.#chunks.handOver(chunk, own, unowned);
      invariant(isOwn, 'another client has taken a chunk of intent slots');
    } else yield* this.#chunks.release(chunk, own);
    const start = yield* this.#find(id, node);
    invariant(start !== NULL_ADDRESS, 'the name of a chunk of intent slots has gone');
    return start;
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

function groupOf(id: number): number {
  return Math.floor((id - 1) / CLIENTS_PER_INTENT_CHUNK);
}

function slotIn(start: Address, id: number, slot: number): Address {
  const slots = ((id - 1) % CLIENTS_PER_INTENT_CHUNK) * INTENTS_PER_CLIENT + slot;
  return start + slots * INTENT_BYTES;
}
