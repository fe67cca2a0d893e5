import type { ProvingIndex } from '../../indexes/contract.ts';
import { HEADER_WORDS, Proof } from '../../indexes/substrates/proof.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { addressOf, Batch, type InPlace, type Operation, Scratch } from '../../verbs/index.ts';
import type { Key, NearCacheStats } from '../api.ts';
import type { Attachment } from '../attachment.ts';
import type { Ledger } from '../eviction/ledger.ts';
import type { Format } from '../values.ts';
import { NONE } from './key-table.ts';
import {
  ENTRY_BYTES,
  ENTRY_WORDS,
  EPOCH,
  HEADER,
  INLINE,
  MARK_HIGH,
  MARK_LOW,
  MARK_WORD,
  NearCache,
  type NearSettings,
  NOTED,
  RECORD_REGION,
  RECORD_WORD,
  REGION_SHIFT,
  SLOT_HIGH,
  SLOT_LOW,
  SLOT_WORD,
  STATE,
  TIMED,
  USE,
  USES_MASK,
  WRITTEN,
} from './near-cache.ts';

/** What `read` returns if the caller must search. No store holds it. */
export const UNPROVEN: unique symbol = Symbol('unproven');

/** Estimated bytes of a decoded object for each byte of its JSON. */
const OBJECT_FACTOR = 2;

/**
 * Once the store has added this share of its records since an entry was kept, a search must answer
 * instead, and note the entry's uses. Otherwise LRU would evict records that only near reads use.
 */
const UNNOTED_PART = 1 / 16;

/** Offsets of the words that a near read over a network READs. */
const SLOT_AT = 0;
const MARK_AT = 8;
const HEADER_AT = 16;
const FOUND_BYTES = HEADER_AT + HEADER_BYTES;

/** Offset of the expected record words, behind the expected slot words. */
const EXPECTED_RECORD = ENTRY_WORDS;

/** The parts of an index and of an attachment that near reads use. */
export type NearIndex = Pick<ProvingIndex, 'prove' | 'proveWritten' | 'proofEra' | 'records'>;
export type NearSection = Pick<Attachment, 'pool' | 'enter' | 'exit' | 'inPlace'>;

/** A near read in flight: what it READs, and what it must find. */
class Comparison {
  readonly batch = new Batch();
  readonly found = new Scratch(FOUND_BYTES);
  readonly expected = new Int32Array(2 * ENTRY_WORDS);
}

/**
 * Reads of values that this handle has decoded before. Each read checks the pool for proof that the
 * record is still the key's current one, so other clients need not know of the cache.
 *
 * The slot is read before the record's header. In the other order a writer could replace the record
 * in between, and its block could be reused for the same key. A block that a slot points to during
 * the section is not reused before the section ends, so the header that is read afterwards is that
 * of the record which the slot pointed to. The version alone would not be enough: two clients may
 * draw the same first version. The header's checksum covers key and value.
 *
 * While this client announces the epoch of the last full proof, the slot alone is proof. The record
 * was linked then, and a block that is unlinked later is reused only after three more epochs.
 */
export class NearReads {
  readonly cache: NearCache;
  readonly #attachment: NearSection;
  readonly #index: NearIndex;
  readonly #inPlace: InPlace | undefined;
  readonly #isFrozen: boolean;
  /** Whether decoded objects are kept (JSON stores), and not only text. */
  readonly #keepsObjects: boolean;
  readonly #slides: boolean;
  /** For a bounded store: counts its hits; and whether it evicts by uses. */
  readonly #ledger: Ledger | undefined;
  readonly #notesUses: boolean;
  readonly #proof = new Proof();
  readonly #here = new Scratch(FOUND_BYTES);
  readonly #idle: Comparison[] = [];
  #era: number;
  hits = 0;
  reads = 0;
  /** The entry from which `read` last answered on shared memory; its version over a network. */
  #last = NONE;
  #version = 0;

  constructor(
    attachment: NearSection,
    index: NearIndex,
    settings: NearSettings,
    { values, readOnly = false }: { values: Format; readOnly?: boolean | undefined },
    counted?: { ledger: Ledger; evicts: boolean },
  ) {
    this.cache = new NearCache(settings);
    this.#attachment = attachment;
    this.#index = index;
    this.#inPlace = attachment.inPlace;
    this.#keepsObjects = typeof values === 'object' && values.name === 'json';
    this.#isFrozen = settings.freeze && this.#keepsObjects;
    this.#slides = !readOnly;
    this.#ledger = counted?.ledger;
    this.#notesUses = counted?.evicts === true;
    this.#era = index.proofEra ?? 0;
  }

  /** The value of the key, proven current in this call, or UNPROVEN. */
  *read(key: Key): Operation<unknown> {
    this.reads++;
    const entry = typeof key === 'string' ? this.cache.find(key) : NONE;
    if (entry === NONE) return UNPROVEN;
    const attachment = this.#attachment;
    yield* attachment.enter();
    try {
      if (!this.#mayAnswer(entry)) return UNPROVEN;
      const inPlace = this.#inPlace;
      if (inPlace === undefined) return yield* this.#readRemote(entry);
      const { cache } = this;
      if (!this.#standsHere(inPlace, cache, ENTRY_WORDS * entry)) return UNPROVEN;
      this.#noteHit(entry);
      this.#last = entry;
      return cache.valueOf(entry);
    } finally {
      attachment.exit();
    }
  }

  /** Whether the entry may answer if its proof holds: unexpired, and no search must run instead. */
  #mayAnswer(entry: number): boolean {
    const { cache } = this;
    const { proofEra } = this.#index;
    if (proofEra !== undefined && proofEra !== this.#era) {
      cache.clear();
      this.#era = proofEra;
      return false;
    }
    const { clock } = this.#attachment.pool;
    clock.refuseFault();
    const state = cache.words[ENTRY_WORDS * entry + STATE];
    if ((state & TIMED) !== 0 && !(clock.now() < cache.until[entry])) return false;
    // If the entry's uses must be noted, leave it to a search.
    return !this.#notesUses || ((state & USES_MASK) !== USES_MASK && !this.#isUnnoted(entry));
  }

  /** Whether enough records were added since the last search that the uses must be noted. */
  #isUnnoted(entry: number): boolean {
    if (this.#ledger === undefined) return false;
    const { added, bound, perRecord } = this.#ledger;
    const since = (added - this.cache.record[ENTRY_WORDS * entry + NOTED]) | 0;
    return since > (UNNOTED_PART * bound.limit) / perRecord;
  }

  #noteHit(entry: number): void {
    const { cache } = this;
    cache.visit(entry);
    this.hits++;
    this.#attachment.pool.meter.countReads(1);
    if (this.#ledger === undefined) return;
    this.#ledger.countHit();
    if (this.#notesUses) cache.words[ENTRY_WORDS * entry + STATE] += USE;
  }

  /** Compares the words in place. Copies them as doubles, because loads of halves could tear. */
  #standsHere(inPlace: InPlace, cache: NearCache, at: number): boolean {
    const { words } = cache;
    const { f64, i32 } = this.#here;
    inPlace.fence();
    const table = inPlace.wordsOf(words[at + STATE] >>> REGION_SHIFT);
    f64[0] = table[words[at + SLOT_WORD]];
    if (i32[0] !== words[at + SLOT_LOW] || i32[1] !== words[at + SLOT_HIGH]) return false;
    if (words[at + MARK_WORD] !== NONE) {
      inPlace.fence();
      f64[0] = table[words[at + MARK_WORD]];
      if (i32[0] !== words[at + MARK_LOW]) return false;
      if ((i32[1] & cache.markMask) !== words[at + MARK_HIGH]) return false;
    }
    if ((words[at + STATE] & INLINE) !== 0 || words[at + EPOCH] === epochOf(this.#attachment))
      return true;
    const { record } = cache;
    inPlace.fence();
    const memory = inPlace.wordsOf(record[at + RECORD_REGION]);
    f64[0] = memory[record[at + RECORD_WORD]];
    f64[1] = memory[record[at + RECORD_WORD] + 1];
    for (let i = 0; i < HEADER_WORDS; i++) if (i32[i] !== record[at + HEADER + i]) return false;
    words[at + EPOCH] = epochOf(this.#attachment);
    return true;
  }

  /**
   * Does the same over a network, by READs of the same words in the same order. The entry may be
   * replaced meanwhile, so this compares and returns copies made beforehand.
   */
  *#readRemote(entry: number): Operation<unknown> {
    const comparison = this.#idle.pop() ?? new Comparison();
    const { cache } = this;
    const { expected } = comparison;
    const at = ENTRY_WORDS * entry;
    const value = cache.valueOf(entry);
    const version = cache.versions[entry];
    for (let i = 0; i < ENTRY_WORDS; i++) {
      expected[i] = cache.words[at + i];
      expected[EXPECTED_RECORD + i] = cache.record[at + i];
    }
    const stands = yield* this.#standsThere(comparison);
    if (stands && isSame(cache, at, expected)) {
      cache.words[at + EPOCH] = epochOf(this.#attachment);
      this.#noteHit(entry);
    }
    this.#idle.push(comparison);
    this.#version = version;
    return stands ? value : UNPROVEN;
  }

  /** One round trip if no header is needed or it is on the slot's node, where READs are ordered. */
  *#standsThere({ batch, expected, found }: Comparison): Operation<boolean> {
    const region = expected[STATE] >>> REGION_SHIFT;
    batch.clear().read(addressOf(region, 8 * expected[SLOT_WORD]), 8, found, SLOT_AT);
    if (expected[MARK_WORD] !== NONE) {
      batch.read(addressOf(region, 8 * expected[MARK_WORD]), 8, found, MARK_AT);
    }
    const isWhole =
      (expected[STATE] & INLINE) === 0 && expected[EPOCH] !== epochOf(this.#attachment);
    const recordRegion = expected[EXPECTED_RECORD + RECORD_REGION];
    const record = addressOf(recordRegion, 8 * expected[EXPECTED_RECORD + RECORD_WORD]);
    const { stripe } = this.#attachment.pool.layout;
    const isTogether = isWhole && recordRegion % stripe === region % stripe;
    if (isTogether) batch.read(record, HEADER_BYTES, found, HEADER_AT);
    yield batch;
    if (!isPlaceSame(found.i32, expected, this.cache.markMask)) return false;
    if (!isWhole) return true;
    if (!isTogether) yield batch.clear().read(record, HEADER_BYTES, found, HEADER_AT);
    for (let i = 0; i < HEADER_WORDS; i++) {
      if (found.i32[(HEADER_AT >> 2) + i] !== expected[EXPECTED_RECORD + HEADER + i]) return false;
    }
    return true;
  }

  /** The version of the record whose value `read` has just returned. */
  get version(): number {
    return this.#inPlace === undefined ? this.#version : this.cache.versions[this.#last];
  }

  /** Uses of the key that are not yet noted in the pool. */
  usesOf(key: Key): number {
    return this.#notesUses && typeof key === 'string' ? this.cache.usesOf(key) : 0;
  }

  get stats(): NearCacheStats {
    const { cache, reads, hits } = this;
    return { entries: cache.size, bytes: cache.bytes, reads, hits };
  }

  /**
   * Keeps what a search has found, within the search's section, from the key's second read on.
   * Returns the value for the caller. If the near cache holds the value of this very record, it is
   * that one: callers get the same object, however they read it. If the store freezes, the value is
   * frozen even when it is not kept.
   */
  keep(key: Key, request: Request, value: unknown): unknown {
    const isObject = typeof value === 'object' && value !== null;
    if (isObject && this.#isFrozen) freezeDeep(value);
    const { cache } = this;
    const { h1, h2 } = request.hash;
    const isSeen = cache.seen.hasOrAdd(h1, h2);
    if (typeof key !== 'string' || (isObject && !this.#keepsObjects)) return value;
    // A search that notes uses finds a kept key even if the cache forgot having seen it.
    const before = isSeen || this.#notesUses ? cache.find(key) : NONE;
    if (!isSeen && before === NONE) return value;
    const index = this.#index;
    const proof = this.#proof;
    if (!index.prove(request, proof)) {
      cache.forget(key);
      return value;
    }
    const kept = before !== NONE && cache.isOf(before, proof) ? cache.valueOf(before) : value;
    const factor = isObject ? OBJECT_FACTOR : 1;
    const bytes = ENTRY_BYTES + request.keyBytes + factor * request.found.contentBytes;
    const until = index.records.unchangedUntil(request, this.#slides);
    const { version } = request.found;
    const entry = cache.keep(key, kept, version, bytes, proof, epochOf(this.#attachment), until);
    if (entry !== NONE && this.#ledger !== undefined) {
      cache.record[ENTRY_WORDS * entry + NOTED] = this.#ledger.added;
    }
    return kept;
  }

  /**
   * Keeps a value that a write of this handle has stored, within the write's section, in place of
   * the one that it has replaced. A write admits no key: clients write many keys that they do not
   * read. For the same reason, of several writes without a read in between only the first one keeps
   * its value. After the others, a search does.
   */
  keepWritten(key: string, value: unknown, request: Request): void {
    const { cache } = this;
    const before = cache.find(key);
    if (before === NONE) return;
    const state = cache.words[ENTRY_WORDS * before + STATE];
    const { expiry, version, valueBytes } = request.record;
    // A search must restart a sliding expiry.
    if ((state & WRITTEN) !== 0 || expiry?.sliding === true) return;
    const proof = this.#proof;
    if (this.#index.proveWritten?.(request, proof) !== true) return;
    const bytes = ENTRY_BYTES + request.keyBytes + valueBytes;
    const until = request.outgoingExpiresAt;
    const entry = cache.keep(key, value, version, bytes, proof, epochOf(this.#attachment), until);
    if (entry !== NONE) cache.words[ENTRY_WORDS * entry + STATE] |= WRITTEN | (state & USES_MASK);
  }

  /** Call when a search has found that the key is absent. */
  forget(key: Key): void {
    if (typeof key === 'string') this.cache.forget(key);
  }
}

/**
 * The announced epoch modulo 2^32. A function, because V8 calls into its runtime for each access to
 * a private getter.
 */
function epochOf({ pool }: NearSection): number {
  return pool.reclamation.announced | 0;
}

function isPlaceSame(found: Int32Array, expected: Int32Array, mask: number): boolean {
  const slot = SLOT_AT >> 2;
  if (found[slot] !== expected[SLOT_LOW] || found[slot + 1] !== expected[SLOT_HIGH]) return false;
  if (expected[MARK_WORD] === NONE) return true;
  const mark = MARK_AT >> 2;
  return found[mark] === expected[MARK_LOW] && (found[mark + 1] & mask) === expected[MARK_HIGH];
}

/** Whether an entry still has the proof that was copied. Ignores its state and its epoch. */
function isSame({ words, record }: NearCache, at: number, expected: Int32Array): boolean {
  for (let i = SLOT_WORD; i < ENTRY_WORDS; i++) {
    if (i !== EPOCH && words[at + i] !== expected[i]) return false;
    if (record[at + i] !== expected[EXPECTED_RECORD + i]) return false;
  }
  return true;
}

/** Freezes plain data all the way down: objects and arrays without cycles, as JSON yields. */
function freezeDeep(value: object): void {
  // A copy of an array's elements would cost as much as freezing it.
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (let i = 0; i < inside.length; i++) {
    const inner = inside[i];
    if (typeof inner === 'object' && inner !== null) freezeDeep(inner);
  }
  Object.freeze(value);
}
