import type { Address, Operation } from '../../verbs/index.ts';
import type { Request } from '../substrates/request.ts';

/** The order of parts, and a traversal's position in it. */
export interface PartOrder {
  readonly done: boolean;
  /** Where to continue, as a safe integer: 0 at the start and at the end. */
  readonly cursor: number;
  /** Moves past the part that was read. */
  pass(): void;
  /** Goes to the part at a place of [0, 1). An index that has `sample` lacks it. */
  seek?(place: number): void;
}

/**
 * The parts of an index. Each index defines here what a part is and how to read one; walks and
 * sweeps build on that. A key that is present during a whole traversal is in exactly one of the
 * parts that it reads, whatever is resized meanwhile.
 */
export interface Parts<R extends Request = Request> {
  readonly order: PartOrder;
  /**
   * The greatest length, in lines, that a slot can express; longer records have it, too. Default:
   * SLOT_UNITS_MAX.
   */
  readonly unitsMax?: number;
  /** Reads the next part; only before the end. The members below concern the part read last. */
  read(): Operation<void>;
  /** How many slots the part has. An index that has `shape` and `picture` lacks it. */
  readonly slotCount?: number;
  /** Visits the slots that name a record; `isClaim` if the record is not committed yet. */
  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void;
  /**
   * Whether a committed record, the `i`th in the order of `eachSlot`, belongs to the part. Default:
   * all do.
   */
  isHere?(request: R, i: number): boolean;
  /** Visits the records that are stored in the part itself, as `IndexWalk.next` does. */
  eachInline?(request: R, visit: (request: R, keyBytes: number) => void): void;
  /** Visits the blocks of which the part consists. */
  eachBlock?(visit: (address: Address) => void): void;
  /** After the last part: visits the index's blocks that belong to no part. */
  eachOtherBlock?(visit: (address: Address) => void): Operation<void>;
}
