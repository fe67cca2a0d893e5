import type { Address, Operation } from '../../verbs/index.ts';
import type { Request } from '../substrates/request.ts';

/** In which order parts come, and how far a traversal is. */
export interface PartOrder {
  readonly done: boolean;
  /** Where to go on, as a safe integer: 0 at the start and at the end. */
  readonly cursor: number;
  /** Goes on behind the part that was read. */
  pass(): void;
  /** Goes to the part at a place of [0, 1). An index that has `sample` lacks it. */
  seek?(place: number): void;
}

/**
 * The parts of an index. An index says here once what a part consists of and how to read one; walks
 * and sweeps are written on top, for all indexes. A key that is present during a whole traversal is
 * in exactly one of the parts that it reads, whatever is resized meanwhile.
 */
export interface Parts<R extends Request = Request> {
  readonly order: PartOrder;
  /**
   * The greatest length, in lines, that a slot can tell: a longer record has it, too. It is
   * SLOT_UNITS_MAX when left out.
   */
  readonly unitsMax?: number;
  /** Reads the next part; only before the end. What follows is about the part read last. */
  read(): Operation<void>;
  /** How many slots it has. An index that has `shape` and `picture` lacks it. */
  readonly slotCount?: number;
  /** Visits what names a record; `isClaim` where the record is not committed yet. */
  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void;
  /**
   * Whether a committed record, the `i`th in the order of `eachSlot`, is of the part. All are when
   * left out.
   */
  isHere?(request: R, i: number): boolean;
  /** Visits the records that stand in the part itself, as `IndexWalk.next` does. */
  eachInline?(request: R, visit: (request: R, keyBytes: number) => void): void;
  /** Visits the blocks that are the part. */
  eachBlock?(visit: (address: Address) => void): void;
  /** Behind the last part: visits the blocks of the index that are of no part. */
  eachOtherBlock?(visit: (address: Address) => void): Operation<void>;
}
