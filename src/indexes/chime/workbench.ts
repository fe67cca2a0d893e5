import { Batch, CAS_BYTES, Scratch } from '../../verbs/index.ts';
import { KeyOrder } from './key-order.ts';
import { KeyScale } from './key-scale.ts';
import { HINT_MAX } from './slot.ts';

const LEAF_BYTES = 1024;
const SLOTS = 64;
const HEADS_BYTES = 8192;

/**
 * Local memory of one step of a change of shape. It is kept for the next one (`Spares`), because
 * making it takes longer than what it is for.
 */
export class Workbench {
  readonly batch = new Batch();
  /** A leaf as it was read. */
  readonly leaf = new Scratch(LEAF_BYTES);
  /** Words of many CAS. */
  readonly swaps = new Scratch(CAS_BYTES * SLOTS);
  /** The first lines of records, and the order of their keys. */
  readonly heads = new Scratch(HEADS_BYTES);
  readonly keys = new KeyOrder();
  /** Between the borders of the leaf at hand. */
  readonly scale = new KeyScale();
  /** How many entries of a leaf have each hint. */
  readonly histogram = new Int32Array(HINT_MAX + 1);
  /** The slot of each of these records. */
  slots = new Int32Array(SLOTS);
  /** What is going to be written. */
  readonly images = new Scratch(2 * LEAF_BYTES);

  ensureSlots(count: number): void {
    if (count > this.slots.length) this.slots = new Int32Array(count);
  }
}
