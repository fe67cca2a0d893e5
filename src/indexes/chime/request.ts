import type { Address } from '../../verbs/index.ts';
import { LeafRequest } from '../substrates/leaf/leaf-request.ts';
import type { NewChild } from './nodes/internal-node.ts';
import { AT_KEY, type CachedNode, type RoutedRequest, type Side } from './nodes/node-arena.ts';
import type { PathRead } from './nodes/remembered-path.ts';
import { KeyOrder } from './scan/key-order.ts';

/** A pivot that does not fit in its leaf, and the block that holds it. */
export interface LongPivot {
  bytes: Uint8Array;
  block: Address;
}

/** A request with its path through the tree. */
export class ChimeRequest extends LeafRequest implements RoutedRequest {
  side: Side = AT_KEY;
  leafLow = 0;
  leafHigh = 0;
  nextLow = 0;
  nextHigh = 0;
  child = 0;
  above: CachedNode | undefined;
  /** The leaf's lower bound, if `above` does not have it. */
  lower: Uint8Array | undefined;
  /** The long pivot that was read last; blocks of pivots never change. */
  longPivot: LongPivot | undefined;
  /** For a split: the path to the leaf, if it was read in front of the split. */
  pathRead: PathRead | undefined;
  /** For a split: the new child of the node above. */
  newChild: NewChild | undefined;
  /** For a split: whether the new key is above all keys of the leaf. */
  appends = false;
  /** For a split: the new pivot, and the block for it when it is long. */
  newPivot: Uint8Array | undefined;
  newPivotBlock: Address = 0;
  /** Lines of the block for a long pivot that this attempt claims before its lock; and the next. */
  pivotUnits = 0;
  wantedUnits = 0;
  #order: KeyOrder | undefined;

  /** For a scan: the items of the leaf in the image. Made when first asked for. */
  get order(): KeyOrder {
    this.#order ??= new KeyOrder(this.upper.length);
    return this.#order;
  }
}
