import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation, Scratch } from '../../verbs/index.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import type { ChimeGeometry } from './geometry.ts';
import { separatorOf } from './nodes/keys.ts';
import type { ChimeRequest } from './request.ts';
import type { KeyOrder } from './scan/key-order.ts';
import { addRecords, readItems } from './scan/leaf-items.ts';

const EVERYTHING = { from: new Uint8Array(0), to: undefined };

/**
 * Halves the keys of a leaf that was read whole: marks those of the upper half, and returns the
 * shortest key between the halves. Undefined for a leaf of less than two keys. (The paper takes the
 * median of the keys that blocked a hop; both halves have room anyway.) Keys of longer items are
 * read from their records into `spare`, in one doorbell.
 */
export function* divideByMedian(
  geometry: ChimeGeometry,
  request: ChimeRequest,
  spare: ChimeRequest,
): Operation<Uint8Array | undefined> {
  const { order, words, upper } = request;
  const all = { lower: EVERYTHING.from, upper: EVERYTHING.to };
  const pictures = [{ request, ...all, leaf: all }];
  const [items] = yield* readItems(geometry, pictures, EVERYTHING, spare, true);
  const inline = order.count;
  addRecords(items, spare);
  order.sort(words, spare.incoming);
  if (order.count < 2) return undefined;
  const middle = order.count >>> 1;
  upper.fill(0);
  for (let i = middle; i < order.count; i++) {
    const one = order.sorted[i];
    const at = one < inline ? order.at[one] : items.records[one - inline].entry;
    upper[geometry.entryOf(at - IMAGE_AT)] = 1;
  }
  const keyOf = (one: number) => keyIn(order.isRecord[one] ? spare.incoming : words, order, one);
  return separatorOf(keyOf(order.sorted[middle - 1]), keyOf(order.sorted[middle]));
}

function keyIn({ u8 }: Scratch, { at, keyBytes }: KeyOrder, one: number): Uint8Array {
  const from = at[one] + HEADER_BYTES;
  return u8.slice(from, from + keyBytes[one]);
}
