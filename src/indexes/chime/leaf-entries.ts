import { HEADER_BYTES, KEY_BYTES_AND_KIND, unitsOf } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { isVacantAt } from './hopscotch.ts';
import { compareWhole, separatorOf } from './keys.ts';
import { isLive, lengthOf, recordOf, SLOT_FROZEN } from './slot.ts';

/** Lines of a record that are read to learn its key; a longer key costs another READ. */
const HEAD_UNITS = 2;

/** Slots as they are in the new leaf: committed ones without FROZEN, and nothing else. */
export function thaw(slots: Int32Array): void {
  for (let i = 0; i < slots.length; i += 2) {
    if (isLive(slots[i], slots[i + 1])) {
      slots[i + 1] &= ~SLOT_FROZEN;
    } else {
      slots[i] = 0;
      slots[i + 1] = 0;
    }
  }
}

/** The lower half of the keys, by slot, and what separates it from the upper one. */
export function* halve(
  slots: Int32Array,
): Operation<{ below: Set<number>; separator: Uint8Array }> {
  const entries = yield* readKeys(slots);
  entries.sort((a, b) => compareWhole(a.key, b.key));
  const middle = entries.length >>> 1;
  return {
    below: new Set(entries.slice(0, middle).map(({ slot }) => slot)),
    separator: separatorOf(entries[middle - 1].key, entries[middle].key),
  };
}

/** Reads the keys of all entries, together. */
export function* readKeys(slots: Int32Array): Operation<{ slot: number; key: Uint8Array }[]> {
  const entries: { slot: number; key: Uint8Array }[] = [];
  const heads = new Scratch((slots.length / 2) * HEAD_UNITS * UNIT_BYTES);
  const batch = new Batch();
  for (let slot = 0; slot < slots.length / 2; slot++) {
    if (isVacantAt(slots, slot)) continue;
    const record = recordOf(slots[2 * slot], slots[2 * slot + 1]);
    const units = Math.min(HEAD_UNITS, lengthOf(slots[2 * slot + 1]));
    const at = entries.length * HEAD_UNITS * UNIT_BYTES;
    batch.read(record, units * UNIT_BYTES, heads, at);
    entries.push({ slot, key: new Uint8Array(0) });
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < entries.length; i++) {
    const at = i * HEAD_UNITS * UNIT_BYTES;
    const keyBytes = heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    const { slot } = entries[i];
    entries[i].key =
      HEADER_BYTES + keyBytes <= HEAD_UNITS * UNIT_BYTES
        ? heads.u8.slice(at + HEADER_BYTES, at + HEADER_BYTES + keyBytes)
        : yield* readLongKey(slots, slot, keyBytes);
  }
  return entries;
}

function* readLongKey(slots: Int32Array, slot: number, keyBytes: number): Operation<Uint8Array> {
  const units = unitsOf(HEADER_BYTES + keyBytes);
  const head = new Scratch(units * UNIT_BYTES);
  const record = recordOf(slots[2 * slot], slots[2 * slot + 1]);
  yield new Batch().read(record, units * UNIT_BYTES, head, 0);
  return head.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}
