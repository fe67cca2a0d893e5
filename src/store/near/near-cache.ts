import { HEADER_WORDS, type Proof } from '../../indexes/substrates/proof.ts';
import { type Address, NULL_ADDRESS, offsetOf, regionOf } from '../../verbs/index.ts';
import { KeyTable, NONE } from './key-table.ts';
import { SeenKeys } from './seen-keys.ts';

/** How large a near cache may become, and whether the objects in it are frozen. */
export interface NearSettings {
  readonly maxEntries: number;
  readonly maxBytes: number;
  readonly freeze: boolean;
}

/**
 * An entry's proof (substrates/proof.ts) stands in two places, because the cache lines that a near
 * read loads are most of its cost. Every read compares the first part, which takes half a line.
 * Only the first read in an epoch needs the second part.
 *
 *    words   0  state: VISITED | TIMED | INLINE | uses not noted yet, from USE on | WRITTEN |
 *               slot's region
 *            1  slot: word in its region | low half | high half
 *            4  epoch announced at the last full proof, modulo 2^32
 *            5  mark, in the same region: word, or NONE | low half | high half
 *    record  0  region | word in it | its header, 4 words
 *            6  records added to the store when a search last noted the key's uses | unused
 */
export const ENTRY_WORDS = 8;
export const STATE = 0;
export const SLOT_WORD = 1;
export const SLOT_LOW = 2;
export const SLOT_HIGH = 3;
export const EPOCH = 4;
export const MARK_WORD = 5;
export const MARK_LOW = 6;
export const MARK_HIGH = 7;
export const RECORD_REGION = 0;
export const RECORD_WORD = 1;
export const HEADER = 2;
export const NOTED = 6;
/** The most that `maxEntries` may be. */
export const ENTRIES_MAX = 2 ** 24;
/** Read since the hand of SIEVE passed it. */
const VISITED = 1;
/** Has a time from which on only a search tells: `until`. */
export const TIMED = 2;
/** Its record stands in the table itself, and has no header. */
export const INLINE = 4;
/** One use, and all that an entry can have. */
export const USE = 8;
export const USES_MASK = 7 * USE;
/** This handle wrote the value, and has not read it since. */
export const WRITTEN = 64;
/** Where the number of the slot's region begins. */
export const REGION_SHIFT = 8;
/**
 * Large ArrayBuffers begin 16 bytes behind a page, because malloc maps them and puts its header in
 * front. From here on entries are whole cache lines then.
 */
const FIRST_AT = 48;
const CAPACITY_AT_FIRST = 256;
/**
 * A cache that outgrows `CAPACITY_AT_FIRST` takes memory for all entries that it may have, up to
 * this many; from there on it doubles. If it doubled from the beginning, copying and the system's
 * work for fresh pages would be half of what keeping a text costs. Pages that it never touches are
 * only reserved.
 */
const CAPACITY_AT_ONCE = 2 ** 17;
/** Estimated bytes of an entry beside its key and value. */
export const ENTRY_BYTES = 160;
/** The cache remembers as many keys that were read once as it may have entries, up to this many. */
const SEEN_MAX = 2 ** 18;

/**
 * Decoded values by key, each with the proof by which a reader tells that it is still the key's.
 * SIEVE evicts (Zhang et al., NSDI 2024): a hit sets a bit and moves nothing.
 */
export class NearCache {
  readonly settings: NearSettings;
  /** Entries for which it takes memory at once. */
  readonly #expected: number;
  readonly #table: KeyTable;
  /** Keys and values by turns, so that a near read loads both by one cache line. */
  readonly #held: unknown[];
  /** Per entry: its proof, and the time from which on only a search tells. */
  words = wordsFor(0);
  record = wordsFor(0);
  until = new Float64Array(0);
  versions = new Uint32Array(0);
  /** The bits of a mark's high half that count: the same for all of an index. */
  markMask = 0;
  #sizes = new Int32Array(0);
  /** The queue of SIEVE, from the oldest entry to the newest one. */
  #newer = new Int32Array(0);
  #older = new Int32Array(0);
  #oldest = NONE;
  #newest = NONE;
  #hand = NONE;
  readonly #free: number[] = [];
  /** Numbers of entries that have been in use. */
  #used = 0;
  /** Keys that were read once. */
  readonly seen: SeenKeys;
  #bytes = 0;

  constructor(settings: NearSettings) {
    const most = Math.min(settings.maxEntries, Math.ceil(settings.maxBytes / ENTRY_BYTES));
    this.settings = settings;
    this.#expected = Math.min(most, CAPACITY_AT_ONCE);
    this.#table = new KeyTable(this.#expected);
    this.#held = this.#table.held;
    this.seen = new SeenKeys(Math.min(SEEN_MAX, Math.max(1, most)));
  }

  get size(): number {
    return this.#table.size;
  }

  /** Estimated memory of the values and of what the cache keeps of each. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The key's entry, or NONE. */
  find(key: string): number {
    return this.#table.find(key);
  }

  valueOf(entry: number): unknown {
    return this.#held[2 * entry + 1];
  }

  /** Whether the entry's value was decoded from the record of this proof. */
  isOf(entry: number, proof: Proof): boolean {
    const { words, record } = this;
    const at = ENTRY_WORDS * entry;
    if (words[at + STATE] >>> REGION_SHIFT !== regionOf(proof.slot)) return false;
    if (words[at + SLOT_WORD] !== wordOf(proof.slot)) return false;
    if (words[at + SLOT_LOW] !== (proof.slotLow | 0)) return false;
    if (words[at + SLOT_HIGH] !== (proof.slotHigh | 0)) return false;
    if (proof.mark !== NULL_ADDRESS) {
      if (words[at + MARK_LOW] !== (proof.markLow | 0)) return false;
      if (words[at + MARK_HIGH] !== (proof.markHigh | 0)) return false;
    }
    if (proof.record === NULL_ADDRESS) return true;
    for (let i = 0; i < HEADER_WORDS; i++) {
      if (record[at + HEADER + i] !== proof.header[i]) return false;
    }
    return true;
  }

  visit(entry: number): void {
    const at = ENTRY_WORDS * entry + STATE;
    const state = this.words[at];
    if ((state & (VISITED | WRITTEN)) === VISITED) return;
    this.words[at] = (state | VISITED) & ~WRITTEN;
  }

  /** Keeps a value that takes `bytes`; or, if that is too much, drops the key's entry: NONE. */
  keep(
    key: string,
    value: unknown,
    version: number,
    bytes: number,
    proof: Proof,
    epoch: number,
    until: number,
  ): number {
    const { maxBytes, maxEntries } = this.settings;
    if (bytes > maxBytes || maxEntries === 0) {
      this.forget(key);
      return NONE;
    }
    let entry = this.find(key);
    if (entry === NONE) {
      while (this.size >= maxEntries) this.#evict();
      entry = this.#add(key);
    }
    this.#held[2 * entry + 1] = value;
    this.versions[entry] = version;
    this.#bytes += bytes - this.#sizes[entry];
    this.#sizes[entry] = bytes;
    this.#write(entry, proof, epoch, until);
    while (this.#bytes > maxBytes) this.#evict();
    return entry;
  }

  #write(entry: number, proof: Proof, epoch: number, until: number): void {
    const { words, record } = this;
    const at = ENTRY_WORDS * entry;
    let state = (words[at + STATE] & VISITED) | (regionOf(proof.slot) << REGION_SHIFT);
    if (until !== Number.POSITIVE_INFINITY) state |= TIMED;
    if (proof.record === NULL_ADDRESS) state |= INLINE;
    words[at + STATE] = state;
    words[at + SLOT_WORD] = wordOf(proof.slot);
    words[at + SLOT_LOW] = proof.slotLow;
    words[at + SLOT_HIGH] = proof.slotHigh;
    words[at + EPOCH] = epoch;
    words[at + MARK_WORD] = proof.mark === NULL_ADDRESS ? NONE : wordOf(proof.mark);
    words[at + MARK_LOW] = proof.markLow;
    words[at + MARK_HIGH] = proof.markHigh;
    this.markMask = proof.markMask;
    record[at + RECORD_REGION] = regionOf(proof.record);
    record[at + RECORD_WORD] = wordOf(proof.record);
    for (let i = 0; i < proof.header.length; i++) record[at + HEADER + i] = proof.header[i];
    this.until[entry] = until;
  }

  #add(key: string): number {
    const entry = this.#free.pop() ?? this.#used++;
    if (entry >= this.#newer.length) this.#grow();
    this.#table.add(key, entry);
    this.words[ENTRY_WORDS * entry + STATE] = 0;
    this.#sizes[entry] = 0;
    this.#older[entry] = this.#newest;
    this.#newer[entry] = NONE;
    if (this.#newest === NONE) this.#oldest = entry;
    else this.#newer[this.#newest] = entry;
    this.#newest = entry;
    return entry;
  }

  #grow(): void {
    const before = this.#newer.length;
    const more = before === 0 ? CAPACITY_AT_FIRST : Math.max(this.#expected, 2 * before);
    const capacity = Math.min(more, this.settings.maxEntries);
    this.#held.length = 2 * capacity;
    this.words = grown(this.words, wordsFor(capacity));
    this.record = grown(this.record, wordsFor(capacity));
    this.until = grown(this.until, new Float64Array(capacity));
    this.versions = grown(this.versions, new Uint32Array(capacity));
    this.#sizes = grown(this.#sizes, new Int32Array(capacity));
    this.#newer = grown(this.#newer, new Int32Array(capacity));
    this.#older = grown(this.#older, new Int32Array(capacity));
  }

  /** The hand goes from the oldest entry to the newest one, and spares those that were read. */
  #evict(): void {
    let entry = this.#hand === NONE ? this.#oldest : this.#hand;
    for (;;) {
      const at = ENTRY_WORDS * entry + STATE;
      if ((this.words[at] & VISITED) === 0) break;
      this.words[at] &= ~VISITED;
      entry = this.#newer[entry] === NONE ? this.#oldest : this.#newer[entry];
    }
    this.#hand = entry;
    this.#drop(entry);
  }

  forget(key: string): void {
    const entry = this.find(key);
    if (entry !== NONE) this.#drop(entry);
  }

  #drop(entry: number): void {
    const [older, newer] = [this.#older[entry], this.#newer[entry]];
    if (this.#hand === entry) this.#hand = newer;
    if (older === NONE) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === NONE) this.#newest = older;
    else this.#older[newer] = older;
    this.#table.remove(entry);
    this.#held[2 * entry + 1] = undefined;
    this.#bytes -= this.#sizes[entry];
    this.#free.push(entry);
  }

  clear(): void {
    while (this.#oldest !== NONE) this.#drop(this.#oldest);
  }

  /** Uses of the key's entry that the pool has not been told of. */
  usesOf(key: string): number {
    const entry = this.find(key);
    return entry === NONE ? 0 : (this.words[ENTRY_WORDS * entry + STATE] & USES_MASK) / USE;
  }
}

/** The number of the 8-byte word of a region. */
function wordOf(address: Address): number {
  return offsetOf(address) >>> 3;
}

function wordsFor(entries: number): Int32Array {
  const memory = new ArrayBuffer(FIRST_AT + 4 * ENTRY_WORDS * entries);
  return new Int32Array(memory, FIRST_AT);
}

function grown<A extends Int32Array | Uint32Array | Float64Array>(from: A, to: A): A {
  to.set(from);
  return to;
}
