import { HEAD_BYTES, writeBytes } from '../../../pool/intents/intent.ts';
import { INTENT_BYTES } from '../../../pool/layout.ts';
import { finalMix } from '../../../records/hash.ts';
import { pad8, TIMES_BYTES } from '../../../records/layout.ts';
import { type Address, UNIT_BYTES } from '../../../verbs/index.ts';
import { inRange } from '../parameters.ts';

/**
 * The hopscotch leaf (CHIME section 4): a header line, then `span` entries. Each entry is the home
 * of some keys; a key is in one of the `neighbourhood` entries that begin with its home, wrapping
 * around.
 *
 *   leaf    0 owner | 8 identity | 16 sequence | 24 vacancy | 32 bounds (the index's four words)
 *          64 [replica] entry x neighbourhood, and so on up to `span` entries
 *   entry   0 checksum 48 | hop bitmap 16
 *           8 version 32 | key bytes 8 | value bytes 8 | codec 8 | flags 8      0 when empty
 *          16 key, zero-padded to 8 bytes | value, zero-padded to 8 bytes            inline
 *          16 fingerprint 32 | record's lines 32 | record's address | key's first bytes   indirect
 *          last 8 bytes, in leaves with access words: the item's last access, see records/times.ts
 *
 * A replica, in leaves that have them, is a copy of the first word of the bounds (CHIME section
 * 4.2.2). Every neighbourhood contains one or follows one.
 *
 * Owner and identity are a lock of the pool (pool/intents). The sequence is odd while keys are
 * inserted, removed or moved; updates do not change it. A bit of the vacancy is set while one of
 * its entries may be empty. Bit i of an entry's hop bitmap says that the i-th entry from there
 * holds a key whose home this entry is. The checksum covers the item and is seeded with the leaf's
 * identity; it does not cover the hop bitmap, which changes without the item.
 */
export { IDENTITY_AT, OWNER_AT } from '../../../pool/intents/lock-word.ts';
export const SEQUENCE_AT = 16;
export const VACANCY_AT = 24;
export const BOUNDS_AT = 32;
export const HEADER_BYTES = UNIT_BYTES;

/** Offsets in an entry. */
export const SUM_AT = 0;
export const ITEM_AT = 8;
export const CONTENT_AT = 16;

/** Vacancy and bounds. */
export const BOUNDS_READ_BYTES = HEADER_BYTES - VACANCY_AT;
const REPLICA_BYTES = 8;
const ACCESS_BYTES = 8;

const SPAN_MAX = 1024;
/** Bits of the hop bitmap. */
const NEIGHBOURHOOD_MAX = 16;
/** Lengths of inline keys and values have 8 bits. */
const INLINE_MAX = 240;
/** Default of `inlineBytes`. */
const INLINE_BYTES = 48;
/** Bytes of an indirect item. */
const INDIRECT_BYTES = 24;
const VACANCY_BITS = 64;
/** Words that a change writes besides entries and hop bitmaps: sequence twice, vacancy, owner. */
export const WORDS_WRITTEN = 4;

/** Parameters of every index with these leaves; kept in the catalog. */
export interface LeafShape {
  /** Entries of a leaf. */
  span: number;
  /** In how many entries, from its home on, a key may be. */
  neighbourhood: number;
  /** Most bytes of a key and a value, padded, that are stored in the leaf itself. */
  inlineBytes: number;
  /** 1 when entries have access words, for eviction; else 0. */
  accessWords: number;
  seed: number;
}

export class LeafGeometry<S extends LeafShape = LeafShape> {
  readonly shape: S;
  readonly entryBytes: number;
  /** Bytes of an entry that its item can take. */
  readonly itemBytes: number;
  readonly leafBytes: number;
  readonly leafUnits: number;
  /** Copies of the first word of the bounds in each leaf. */
  readonly replicas: number;
  /** Entries that share a bit of the vacancy. */
  readonly perVacancyBit: number;
  /** How many items an insertion can move: its intent must fit a slot. */
  readonly movesMax: number;
  readonly #scale: number;
  readonly #groupBytes: number;
  /** Offset in the leaf of each entry. */
  readonly entriesAt: Int32Array;
  /** Offset in an entry of its access word; 0 if it has none. */
  readonly accessAt: number;

  /** `blockOf`: rounds a number of lines up to a block size. */
  constructor(shape: S, hasReplicas = false, blockOf = (units: number) => units) {
    const { span, neighbourhood, inlineBytes } = shape;
    this.shape = shape;
    this.itemBytes = CONTENT_AT + Math.max(INDIRECT_BYTES, pad8(inlineBytes));
    this.entryBytes = this.itemBytes + (shape.accessWords ? ACCESS_BYTES : 0);
    this.accessAt = shape.accessWords ? this.itemBytes : 0;
    this.replicas = hasReplicas ? Math.ceil(span / neighbourhood) : 0;
    this.#groupBytes = neighbourhood * this.entryBytes + REPLICA_BYTES;
    this.leafBytes = HEADER_BYTES + span * this.entryBytes + this.replicas * REPLICA_BYTES;
    this.entriesAt = Int32Array.from({ length: span }, (_, entry) => {
      const replicas = hasReplicas ? Math.floor(entry / neighbourhood) + 1 : 0;
      return HEADER_BYTES + entry * this.entryBytes + replicas * REPLICA_BYTES;
    });
    this.leafUnits = blockOf(Math.ceil(this.leafBytes / UNIT_BYTES));
    this.perVacancyBit = Math.ceil(span / VACANCY_BITS);
    const perMove = writeBytes(this.entryBytes) + writeBytes(8);
    const others = HEAD_BYTES + WORDS_WRITTEN * writeBytes(8);
    this.movesMax = Math.floor((INTENT_BYTES - others) / perMove) - 1;
    this.#scale = span / 2 ** 32;
  }

  /** The first entry in which a key with this hash word may be. */
  homeOf(h2: number): number {
    return ((h2 >>> 0) * this.#scale) | 0;
  }

  /** The bit of the vacancy for an entry. */
  vacancyBit(entry: number): number {
    return this.perVacancyBit === 1 ? entry : Math.floor(entry / this.perVacancyBit);
  }

  /** Offset in the leaf of an entry. */
  entryAt(entry: number): number {
    return this.entriesAt[entry];
  }

  /** The entry at an offset in the leaf. */
  entryOf(at: number): number {
    const behind = at - HEADER_BYTES;
    if (this.replicas === 0) return behind / this.entryBytes;
    const group = Math.floor(behind / this.#groupBytes);
    const inGroup = (behind % this.#groupBytes) - REPLICA_BYTES;
    return group * this.shape.neighbourhood + inGroup / this.entryBytes;
  }

  replicaAt(replica: number): number {
    return HEADER_BYTES + replica * this.#groupBytes;
  }

  /** The replica that is read along with a neighbourhood. */
  replicaOf(home: number): number {
    const group = Math.ceil(home / this.shape.neighbourhood);
    return group < this.replicas ? group : 0;
  }

  /** Offset where a READ of entries from `first` on begins; includes a replica in front of it. */
  startAt(first: number): number {
    const isFirst = this.replicas > 0 && first % this.shape.neighbourhood === 0;
    return isFirst ? this.entriesAt[first] - REPLICA_BYTES : this.entriesAt[first];
  }

  /** The entry `distance` after another one, wrapping around. */
  after(entry: number, distance: number): number {
    const { span } = this.shape;
    const next = entry + distance;
    return next < span ? next : next - span;
  }

  /** How far after `home` an entry is, wrapping around. */
  distance(home: number, entry: number): number {
    return entry >= home ? entry - home : entry - home + this.shape.span;
  }

  fitsInline(keyBytes: number, valueBytes: number): boolean {
    const { inlineBytes } = this.shape;
    return inlineBytes > 0 && pad8(keyBytes) + pad8(valueBytes) <= inlineBytes;
  }
}

export function leafShape(wishes: Partial<Omit<LeafShape, 'seed'>>, seed: number): LeafShape {
  const span = inRange('span', wishes.span ?? 64, 2, SPAN_MAX);
  const most = Math.min(span, NEIGHBOURHOOD_MAX);
  const neighbourhood = inRange(
    'neighbourhood',
    wishes.neighbourhood ?? Math.min(8, most),
    2,
    most,
  );
  const accessWords = inRange('accessWords', wishes.accessWords ?? 0, 0, 1);
  // Items with access words have times, too.
  const enough = INLINE_BYTES + (accessWords === 1 ? TIMES_BYTES : 0);
  const inlineBytes = inRange('inlineBytes', wishes.inlineBytes ?? enough, 0, INLINE_MAX);
  return { span, neighbourhood, inlineBytes, accessWords, seed };
}

/**
 * The identity of a leaf, different from that of any other leaf and of any other use of its block;
 * `tag` distinguishes the uses of a block.
 */
export function identityLow(address: Address, tag: number, seed: number): number {
  return finalMix(finalMix(address ^ seed) ^ finalMix(tag + Math.floor(address / 2 ** 32)));
}

/** Never 0, so that zeroed memory has no identity. */
export function identityHigh(address: Address, tag: number, seed: number): number {
  return finalMix(identityLow(address, tag, seed) ^ finalMix(seed + tag)) | 1;
}
