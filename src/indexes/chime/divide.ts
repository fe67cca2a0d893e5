import { invariant } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation, Scratch } from '../../verbs/index.ts';
import { BOUNDS_AT } from '../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { siblingIn } from './bounds.ts';
import { compareKeys, separatorOf } from './nodes/keys.ts';
import type { ChimeRequest } from './request.ts';
import type { KeyOrder } from './scan/key-order.ts';
import { addRecords, type LeafReader, readItems } from './scan/leaf-items.ts';

const EVERYTHING = {
  range: { from: new Uint8Array(0), to: undefined },
  limit: Number.POSITIVE_INFINITY,
  reverse: false,
  keysOnly: true,
};

/**
 * Halves the keys of a leaf that was read whole: marks those of the upper half, and returns the
 * shortest key between the halves. Undefined for a leaf of less than two keys. (The paper takes the
 * median of the keys that blocked a hop; both halves have room anyway.) Of the last leaf nothing
 * goes when the new key is above all: ascending keys leave full leaves. Keys of longer items are
 * read from their records into `spare`, in one doorbell.
 */
export function* divideByMedian(
  { geometry, sums, splitsAtEnd }: LeafReader & { splitsAtEnd: boolean },
  request: ChimeRequest,
  spare: ChimeRequest,
): Operation<Uint8Array | undefined> {
  const { order, words, upper } = request;
  const { from: lower, to } = EVERYTHING.range;
  const all = { lower, upper: to };
  order.clear(true);
  const pictures = [{ request, ...all, leaf: all }];
  const [items] = (yield* readItems({ geometry, sums }, pictures, EVERYTHING, spare)) ?? [];
  invariant(items !== undefined, 'an item changes in a leaf that is locked');
  const inline = order.count;
  addRecords(items, spare);
  order.sort(words, spare.incoming);
  if (order.count < 2) return undefined;
  upper.fill(0);
  const keyOf = (one: number) => keyIn(order.isRecord[one] ? spare.incoming : words, order, one);
  const greatest = keyOf(order.sorted[order.count - 1]);
  const isAtEnd = splitsAtEnd && isAppended(request, greatest);
  if (isAtEnd) return separatorOf(greatest, ownKey(request));
  const middle = order.count >>> 1;
  for (let i = middle; i < order.count; i++) {
    const one = order.sorted[i];
    const at = one < inline ? order.at[one] : items.records[one - inline].entry;
    upper[geometry.entryOf(at - IMAGE_AT)] = 1;
  }
  return separatorOf(keyOf(order.sorted[middle - 1]), keyOf(order.sorted[middle]));
}

/** Whether the key that the leaf is split for is above all that the tree has. */
function isAppended(request: ChimeRequest, greatest: Uint8Array): boolean {
  const { words, outgoing, keyBytes } = request;
  if (siblingIn(words, IMAGE_AT + BOUNDS_AT) !== undefined) return false;
  const at = HEADER_BYTES;
  return compareKeys(outgoing.u8, at, keyBytes, greatest, 0, greatest.length) > 0;
}

function ownKey({ outgoing, keyBytes }: ChimeRequest): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}

function keyIn({ u8 }: Scratch, { at, keyBytes }: KeyOrder, one: number): Uint8Array {
  const from = at[one] + HEADER_BYTES;
  return u8.slice(from, from + keyBytes[one]);
}
