import { Intent } from '../../../pool/intents/intent.ts';
import { NO_SLOT } from '../../../pool/intents/intent-slots.ts';
import { type Address, NULL_ADDRESS } from '../../../verbs/index.ts';
import { ALWAYS, type Condition, type Outcome, REFUSED } from '../../contract.ts';
import { Request } from '../request.ts';
import type { LeafGeometry } from './layout.ts';
import type { LeafTurn } from './leaf-turns.ts';

/**
 * Offsets in a request's words: of a CAS, of a lock that is polled, of the sequence as it was
 * before the entries were read, and of the leaf's image.
 */
export const SWAP_AT = 0;
export const POLL_AT = 24;
export const FIRST_SEQUENCE_AT = 40;
export const IMAGE_AT = 64;

/** `Index.write`, `remove`, `modify`. */
export type Change = typeof WRITES | typeof REMOVES | typeof MODIFIES;
export const WRITES = 0;
export const REMOVES = 1;
export const MODIFIES = 2;

/** A request, and the state that operations on a leaf keep between round trips. */
export class LeafRequest extends Request implements LeafTurn {
  /** Addresses and identity of the key's leaf, and the key's home in it. */
  leaf: Address = NULL_ADDRESS;
  idLow = 0;
  idHigh = 0;
  home = 0;
  /** Whether a search also reads the bounds; a replica may be enough. */
  readsBounds = true;
  /**
   * The lock word for which the operation waits, or 0; since when, by the pool's timer; and how
   * many rounds of polls it has made.
   */
  heldLow = 0;
  heldHigh = 0;
  heldSince = 0;
  looks = 0;
  /** The fingerprint by which an indirect item's key is compared, besides its prefix. */
  fingerprint = 0;
  /** The entry that holds the key, as an offset in `words`, when it was found. */
  entry = 0;
  /** The entry that a search of many keys speculates on, or less than 0. */
  spot = -1;
  /** Entries of the image, from `home` on, that were read. */
  known = 0;
  /** Whether the new item is inline. */
  inline = false;
  /** How many items an insertion moves; the entries it moves them to, in order; their homes. */
  moves = 0;
  readonly moved: Int32Array;
  readonly homes: Int32Array;
  /** By entry of a leaf that is split: whether its item goes to the sibling. */
  readonly upper: Uint8Array;
  readonly #accessAt: number;
  readonly intent = new Intent();
  /** The intent slot of this operation, and the owner word of its locks. */
  slot = NO_SLOT;
  ownLow = 0;
  ownHigh = 0;
  /** Whether it holds its leaf's lock. */
  locked = false;
  inserts = false;
  turnAt: Address = NULL_ADDRESS;
  hasTurn = false;
  turnDone = false;
  turnRefused: unknown;
  /** The change of the key's item, its condition, and how it ended. */
  change: Change = WRITES;
  condition: Condition = ALWAYS;
  expected: number | undefined;
  compute: (present: boolean) => void = () => {};
  outcome: Outcome = REFUSED;
  /** Whether another operation at the leaf may make this one's change, too: see `combine.ts`. */
  joins = false;
  /** Homes of waiting operations whose neighbourhoods this one has read under its lock. */
  readonly homesRead: number[] = [];

  constructor(geometry: LeafGeometry) {
    super(IMAGE_AT + geometry.leafBytes);
    // One more than moves: the inserted item's.
    this.moved = new Int32Array(geometry.movesMax + 1);
    this.homes = new Int32Array(geometry.movesMax + 1);
    this.upper = new Uint8Array(geometry.shape.span);
    this.#accessAt = geometry.accessAt;
  }

  /** The last word of an inline item's entry, if it has one: written without a lock. */
  override get accessAt(): number {
    const isInEntry = this.found.isInline && this.#accessAt > 0;
    return isInEntry ? this.foundEntry + this.#accessAt : super.accessAt;
  }

  override get foundAddress(): Address {
    return this.foundRecord;
  }

  override get isInTable(): boolean {
    return this.inline;
  }

  /** Called when the operation begins, or goes to another leaf: it waits for no holder yet. */
  forgetHolder(): void {
    this.heldHigh = 0;
    this.looks = 0;
  }

  /** Offset of the found inline item's entry in `found.memory`. */
  foundEntry = 0;
  /** Of a found indirect item: lines and address of its record's first block. */
  foundLines = 0;
  /** Offset in the intent's memory of the entry that a write has replaced; -1 if it did not. */
  writtenAt = -1;
  foundRecord: Address = 0;
}
