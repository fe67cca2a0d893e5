import { control } from '../../../pool/control.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import { isCurrentState } from '../../../pool/memory/block-state.ts';
import {
  FLAG_CHAINED,
  HEADER_BYTES,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  SLOT_UNITS_MAX,
  VALUE_BYTES,
} from '../../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';
import { classOfHead } from '../../substrates/record-io.ts';
import { recordOf, unitsOfSlot } from './slot.ts';
import type { Word } from './word.ts';

/**
 * Where the state bytes of the records stand that slots name. A slot does not tell the size of a
 * long record's block; its header does.
 */
export function* stateBytesOf(allocator: Allocator, slots: readonly Word[]): Operation<Address[]> {
  const bytes: Address[] = [];
  for (const slot of slots) {
    const record = recordOf(slot);
    const units = unitsOfSlot(slot.high);
    const head = units < SLOT_UNITS_MAX ? units : yield* headUnitsAt(record);
    bytes.push(allocator.stateByteOf(record, classOfHead(head)));
  }
  return bytes;
}

function* headUnitsAt(record: Address): Operation<number> {
  const header = new Scratch(HEADER_BYTES);
  yield new Batch().read(record, HEADER_BYTES, header, 0);
  return headUnitsIn(header, 0);
}

/** Lines of the first block of a record whose header was READ. */
export function headUnitsIn({ i32 }: Scratch, at: number): number {
  const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const isChained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  return headUnitsOf(kind & 0xffff, i32[(at + VALUE_BYTES) >> 2] >>> 0, isChained);
}

/** Whether the record that a slot names is marked as current. */
export function* isMarked(allocator: Allocator, slot: Word): Operation<boolean> {
  const [at] = yield* stateBytesOf(allocator, [slot]);
  const word = yield* control.readBytes(Math.floor(at / 8) * 8, 8);
  return isCurrentState(word[at % 8]);
}
