import type { Address } from '../../verbs/index.ts';
import { grown } from './columns.ts';
import type { Records } from './key-reader.ts';
import { recordOf, unitsOfSlot } from './slot.ts';

/** A slot that names a record. */
export interface NamedSlot {
  slot: Address;
  low: number;
  high: number;
}

/** Many of them, in columns: a table has millions. They are records to be read as well. */
export class SlotList implements Records {
  slot: Float64Array;
  low: Int32Array;
  high: Int32Array;
  count = 0;

  constructor(capacity: number) {
    this.slot = new Float64Array(capacity);
    this.low = new Int32Array(capacity);
    this.high = new Int32Array(capacity);
  }

  push(slot: Address, low: number, high: number): void {
    if (this.count === this.slot.length) this.#grow();
    this.slot[this.count] = slot;
    this.low[this.count] = low;
    this.high[this.count] = high;
    this.count++;
  }

  #grow(): void {
    const capacity = 2 * this.count;
    this.slot = grown(this.slot, capacity);
    this.low = grown(this.low, capacity);
    this.high = grown(this.high, capacity);
  }

  at(i: number): NamedSlot {
    return { slot: this.slot[i], low: this.low[i], high: this.high[i] };
  }

  address(i: number): Address {
    return recordOf(this.low[i], this.high[i]);
  }

  units(i: number): number {
    return unitsOfSlot(this.high[i]);
  }
}
