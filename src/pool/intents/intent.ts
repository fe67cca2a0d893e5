import { invariant } from '../../errors.ts';
import {
  type Address,
  type Batch,
  readInteger,
  Scratch,
  setWord,
  writeInteger,
} from '../../verbs/index.ts';
import { CHUNK_BYTES, INTENT_BYTES } from '../layout.ts';
import { freeHigh, IDENTITY_AT, isSame, OWNER_AT, RETIRED, type Word } from './lock-word.ts';

/**
 * An intent holds everything that an operation is about to write under its locks, so that another
 * client can write it if the operation's client dies: all WRITEs in order, as addresses and bytes.
 * The last WRITE of each locked leaf releases it, and that of the first leaf is the last of all.
 *
 *    0  owner word of the first leaf      8  owner word of the second leaf
 *   16  bytes of the writes 32 | checksum 32; both 0 until the intent is whole
 *   24  address of a block that holds the writes; 0: they follow the head
 *   32  first leaf's address, identity   48  second leaf's address (or 0), identity
 *   64  writes: address 8 | bytes 32 | leaf 32 | data, padded to 8 bytes
 *
 * The head is written before the lock is tried, in the same batch. The two owner words differ only
 * in a copy that a repairer makes when it takes over the first leaf.
 */
const OWN_AT = 0;
const OTHER_AT = 8;
const LENGTH_AT = 16;
const SUM_AT = 20;
const BLOCK_AT = 24;
const LEAVES_AT = 32;
const LEAF_BYTES = 16;
export const HEAD_BYTES = 64;
const WRITE_HEAD_BYTES = 16;

export const FIRST_LEAF = 0;
export const SECOND_LEAF = 1;

/** Bytes of a write of `bytes` in an intent. */
export function writeBytes(bytes: number): number {
  return WRITE_HEAD_BYTES + bytes;
}

/** The local image of an intent that this client builds or has read. */
export class Intent {
  readonly memory = new Scratch(INTENT_BYTES);
  #end = HEAD_BYTES;
  /** Offset of the last write. */
  #last = 0;

  /** Makes room for an intent of this many bytes. Call before `begin`. */
  ensure(bytes: number): void {
    this.memory.ensure(bytes);
  }

  begin(ownLow: number, ownHigh: number): void {
    const { memory } = this;
    for (let at = 0; at < HEAD_BYTES; at += 8) setWord(memory, at, 0, 0);
    setWord(memory, OWN_AT, ownLow, ownHigh);
    setWord(memory, OTHER_AT, ownLow, ownHigh);
    this.#end = HEAD_BYTES;
    this.#last = 0;
  }

  setLeaf(leaf: number, address: Address, identityLow: number, identityHigh: number): void {
    // An identity of 0 is that of any leaf that was merged away.
    const isLeaf = address > 0 && (identityLow !== 0 || identityHigh !== 0);
    invariant(isLeaf, 'an intent names a leaf without an address or identity');
    const at = LEAVES_AT + leaf * LEAF_BYTES;
    writeInteger(this.memory, at, address);
    setWord(this.memory, at + IDENTITY_AT, identityLow, identityHigh);
  }

  /** Adds a WRITE of whole words; returns the offset in `memory` where the caller puts its data. */
  add(leaf: number, address: Address, bytes: number): number {
    const { memory } = this;
    const at = this.#end;
    // Otherwise a repair would write somewhere else.
    invariant(address > 0 && bytes % 8 === 0, 'an intent must write whole words');
    invariant(at + WRITE_HEAD_BYTES + bytes <= memory.u8.length, 'an intent outgrows its memory');
    writeInteger(memory, at, address);
    memory.i32[(at + 8) >> 2] = bytes;
    memory.i32[(at + 12) >> 2] = leaf;
    this.#last = at;
    this.#end = at + WRITE_HEAD_BYTES + bytes;
    return at + WRITE_HEAD_BYTES;
  }

  addWord(leaf: number, address: Address, low: number, high: number): void {
    setWord(this.memory, this.add(leaf, address, 8), low, high);
  }

  /** Adds the WRITE that releases a leaf. */
  addRelease(leaf: number): void {
    const { i32 } = this.memory;
    const word = (LEAVES_AT + leaf * LEAF_BYTES + IDENTITY_AT) >> 2;
    this.addWord(leaf, this.leaf(leaf) + OWNER_AT, i32[word], freeHigh(i32[word + 1]));
  }

  /** Adds the WRITEs that retire a merged leaf: erase its identity, then mark its owner word. */
  addRetirement(leaf: number): void {
    // A repair finds the intent by the first leaf's lock.
    invariant(leaf === SECOND_LEAF, 'an intent retires its first leaf');
    this.addWord(leaf, this.leaf(leaf) + IDENTITY_AT, 0, 0);
    this.addWord(leaf, this.leaf(leaf) + OWNER_AT, RETIRED.low, RETIRED.high);
  }

  /** Adds the WRITE of the head, which names the lock that is tried in the same batch. */
  postHead(slot: Address, batch: Batch): void {
    batch.write(slot, HEAD_BYTES, this.memory, 0);
  }

  /** Adds the WRITE of the whole intent; puts its writes into `block` if they are too long. */
  postWhole(slot: Address, batch: Batch, block: Address): void {
    const { memory } = this;
    this.#checkEnd();
    const isLong = this.#end > INTENT_BYTES;
    invariant(!isLong || block !== 0, 'a long intent without a block');
    writeInteger(memory, BLOCK_AT, isLong ? block : 0);
    memory.i32[LENGTH_AT >> 2] = this.#end - HEAD_BYTES;
    if (isLong) batch.write(block, this.#end - HEAD_BYTES, memory, HEAD_BYTES);
    this.#postSealed(slot, batch);
  }

  /** A repair relies on the first leaf's lock: once that is released, all WRITEs must be done. */
  #checkEnd(): void {
    const { i32 } = this.memory;
    const isOfFirst = i32[(this.#last + 12) >> 2] === FIRST_LEAF;
    const releases = readInteger(this.memory, this.#last) === this.leaf(FIRST_LEAF) + OWNER_AT;
    invariant(isOfFirst && releases, 'an intent does not release its first leaf last');
    invariant(this.#end - HEAD_BYTES <= CHUNK_BYTES, 'an intent is too long for a repair');
  }

  /** Adds the WRITE of the intent that was read, with another owner: see `repair.ts`. */
  postCopy(slot: Address, batch: Batch, ownLow: number, ownHigh: number): void {
    setWord(this.memory, OWN_AT, ownLow, ownHigh);
    this.#postSealed(slot, batch);
  }

  #postSealed(slot: Address, batch: Batch): void {
    this.memory.i32[SUM_AT >> 2] = this.#sum();
    batch.write(slot, this.block === 0 ? this.#end : HEAD_BYTES, this.memory, 0);
  }

  /** Adds the WRITEs themselves. */
  postWrites(batch: Batch, isGuarded: (leaf: number) => boolean = () => true): void {
    const { memory } = this;
    for (let at = HEAD_BYTES; at < this.#end; ) {
      const bytes = memory.i32[(at + 8) >> 2];
      if (isGuarded(memory.i32[(at + 12) >> 2])) {
        batch.write(readInteger(memory, at), bytes, memory, at + WRITE_HEAD_BYTES);
      }
      at += WRITE_HEAD_BYTES + bytes;
    }
  }

  get own(): Word {
    return this.#word(OWN_AT);
  }

  /** The owner word that locks the second leaf. */
  get other(): Word {
    return this.#word(OTHER_AT);
  }

  leaf(leaf: number): Address {
    return readInteger(this.memory, LEAVES_AT + leaf * LEAF_BYTES);
  }

  identity(leaf: number): Word {
    return this.#word(LEAVES_AT + leaf * LEAF_BYTES + IDENTITY_AT);
  }

  names(address: Address): boolean {
    return this.leaf(FIRST_LEAF) === address || this.leaf(SECOND_LEAF) === address;
  }

  /** How many bytes of writes the head declares, and the block that holds them. */
  get length(): number {
    return this.memory.i32[LENGTH_AT >> 2] >>> 0;
  }

  get block(): Address {
    return readInteger(this.memory, BLOCK_AT);
  }

  /** Whether this client has read a whole intent, of the operation with this lock word. */
  isWholeOf(word: Word): boolean {
    const { length, memory } = this;
    if (!isSame(this.own, word) || length === 0) return false;
    if (HEAD_BYTES + length > memory.u8.length) return false;
    this.#end = HEAD_BYTES + length;
    return memory.i32[SUM_AT >> 2] === this.#sum();
  }

  /** FNV-1a by words, over everything but the sum itself. */
  #sum(): number {
    const { i32 } = this.memory;
    const end = this.#end >> 2;
    let sum = 0x811c9dc5;
    for (let word = 0; word < SUM_AT >> 2; word++) sum = Math.imul(sum ^ i32[word], 0x01000193);
    for (let word = (SUM_AT >> 2) + 1; word < end; word++) {
      sum = Math.imul(sum ^ i32[word], 0x01000193);
    }
    return sum ^ (sum >>> 15);
  }

  #word(at: number): Word {
    return { low: this.memory.i32[at >> 2], high: this.memory.i32[(at >> 2) + 1] };
  }
}
