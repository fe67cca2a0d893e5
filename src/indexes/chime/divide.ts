import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import {
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
  linesOf,
  recordOf,
} from '../substrates/leaf/entry.ts';
import { CONTENT_AT } from '../substrates/leaf/layout.ts';
import type { LeafClient } from '../substrates/leaf/leaf-client.ts';
import type { LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { imageOf } from '../substrates/leaf/read-leaf.ts';
import { type SlotRecord, visitRecords } from '../substrates/record-visits.ts';
import type { Request } from '../substrates/request.ts';
import { compareWhole, separatorOf } from './nodes/keys.ts';

/** A key of a leaf and the entry that it stands in. */
interface KeyedEntry {
  key: Uint8Array;
  entry: number;
}

/**
 * Halves the keys of a leaf that was read whole: marks those of the upper half, and returns the
 * shortest key between the halves. Undefined for a leaf of less than two keys. (The paper takes the
 * median of the keys that blocked a hop; both halves have room anyway.)
 */
export function* divideByMedian(
  client: LeafClient,
  { words, upper }: LeafRequest,
  spare: Request,
): Operation<Uint8Array | undefined> {
  const keyed = yield* keysOf(client, words, spare);
  if (keyed.length < 2) return undefined;
  keyed.sort((a, b) => compareWhole(a.key, b.key));
  const middle = keyed.length >>> 1;
  upper.fill(0);
  for (const { entry } of keyed.slice(middle)) upper[entry] = 1;
  return separatorOf(keyed[middle - 1].key, keyed[middle].key);
}

/** Keys of longer items are read from their records, in one doorbell. */
function* keysOf(
  client: LeafClient,
  words: LeafRequest['words'],
  spare: Request,
): Operation<KeyedEntry[]> {
  const { span, seed } = client.geometry.shape;
  const keyed: KeyedEntry[] = [];
  const entries: number[] = [];
  const records: SlotRecord[] = [];
  for (let entry = 0; entry < span; entry++) {
    const at = imageOf(client, entry);
    const item = itemHigh(words, at);
    if (isEmpty(item)) continue;
    if (isIndirect(item)) {
      entries.push(entry);
      records.push({ address: recordOf(words, at), units: linesOf(words, at) });
    } else {
      const from = at + CONTENT_AT;
      keyed.push({ key: words.u8.slice(from, from + keyBytesOf(item)), entry });
    }
  }
  let next = 0;
  const visit = ({ outgoing }: Request, keyBytes: number) => {
    const key = outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    keyed.push({ key, entry: entries[next++] });
  };
  yield* visitRecords(client.records, spare, records, seed, () => true, visit, true);
  return keyed;
}
