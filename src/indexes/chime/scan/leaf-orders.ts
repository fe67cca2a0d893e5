import { isIndirect, itemHigh, keyBytesOf } from '../../substrates/leaf/entry.ts';
import { SEQUENCE_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../../substrates/leaf/leaf-request.ts';
import type { ChimeGeometry } from '../geometry.ts';
import { TAG_VALUES } from '../nodes/link.ts';
import type { ChimeRequest } from '../request.ts';

/** Most leaves whose order is remembered: 3 MiB with 64 entries. */
const LEAVES_MAX = 2 ** 15;
/** Words for each leaf: identity, sequence, number of entries, epoch. */
const HEAD_WORDS = 6;
/** Age of a useless order: long before tags, and so the identities in a block, wrap around. */
const EPOCHS_MAX = TAG_VALUES / 4;

/**
 * The order of the keys in leaves that this client has scanned. It holds while the leaf's sequence
 * is the same: no key was inserted, removed or moved. A scan then sorts nothing, and verifies only
 * the items that it returns. If two leaves share a place, the later one keeps it.
 */
export class LeafOrders {
  readonly #geometry: ChimeGeometry;
  readonly #cache: { readonly epoch: number };
  /** Allocated by the first scan. */
  #heads = new Int32Array(0);
  #entries = new Uint8Array(0);

  constructor(geometry: ChimeGeometry, cache: { readonly epoch: number }) {
    this.#geometry = geometry;
    this.#cache = cache;
  }

  /**
   * Sets the order of the request's leaf, whose picture is of one moment, without verifying the
   * items. False if the order is not remembered, or an item is indirect.
   */
  recall({ order, words, idLow, idHigh }: ChimeRequest): boolean {
    const heads = this.#heads;
    if (heads.length === 0) return false;
    const place = placeOf(idLow);
    const head = place * HEAD_WORDS;
    if (heads[head] !== idLow || heads[head + 1] !== idHigh) return false;
    const { epoch } = this.#cache;
    if (epoch < 0 || epoch - heads[head + 5] > EPOCHS_MAX) return false;
    const { i32 } = words;
    const sequence = (IMAGE_AT + SEQUENCE_AT) >> 2;
    if (heads[head + 2] !== i32[sequence] || heads[head + 3] !== i32[sequence + 1]) return false;
    const { entriesAt, shape } = this.#geometry;
    const first = place * shape.span;
    order.clear(false);
    for (let i = 0; i < heads[head + 4]; i++) {
      const at = IMAGE_AT + entriesAt[this.#entries[first + i]];
      const item = itemHigh(words, at);
      // An update may have given it a record.
      if (isIndirect(item)) return false;
      order.append(at, keyBytesOf(item));
    }
    return true;
  }

  /** Remembers the order of all items of the request's leaf. */
  note({ order, words, idLow, idHigh }: ChimeRequest): void {
    const { span } = this.#geometry.shape;
    if (span > 256) return;
    if (this.#heads.length === 0) {
      this.#heads = new Int32Array(HEAD_WORDS * LEAVES_MAX);
      this.#entries = new Uint8Array(span * LEAVES_MAX);
    }
    const place = placeOf(idLow);
    const head = place * HEAD_WORDS;
    const { i32 } = words;
    const sequence = (IMAGE_AT + SEQUENCE_AT) >> 2;
    this.#heads[head] = idLow;
    this.#heads[head + 1] = idHigh;
    this.#heads[head + 2] = i32[sequence];
    this.#heads[head + 3] = i32[sequence + 1];
    this.#heads[head + 4] = order.count;
    this.#heads[head + 5] = this.#cache.epoch;
    const first = place * span;
    for (let i = 0; i < order.count; i++) {
      const { at, sorted } = order;
      this.#entries[first + i] = this.#geometry.entryOf(at[sorted[i]] - IMAGE_AT);
    }
  }

  forget({ idLow }: ChimeRequest): void {
    if (this.#heads.length > 0)
      this.#heads.fill(0, placeOf(idLow) * HEAD_WORDS, placeOf(idLow) * HEAD_WORDS + 2);
  }
}

/** Without a hash, because an identity's lower half already mixes the leaf's address. */
function placeOf(idLow: number): number {
  return idLow & (LEAVES_MAX - 1);
}
