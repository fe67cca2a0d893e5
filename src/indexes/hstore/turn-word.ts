import { type Address, highHalf, lowHalf, type Scratch, UNIT_BYTES } from '../../verbs/index.ts';

const POINTER_HIGH_BITS = 10;
const UNITS_BITS = 8;
const COUNT_SHIFT = POINTER_HIGH_BITS + UNITS_BITS;
const LOW_VALUES = 2 ** 32;

/**
 * Names a turn of a hash server by its record in the pool, which is freed through epochs: a word
 * that somebody has read never comes again while he may still use it in a CAS.
 *
 *   count 14 | lines of the record's block 8 | address of the record in lines 42
 */
export interface TurnWord {
  readonly low: number;
  readonly high: number;
}

export function turnIn(words: Scratch, at: number): TurnWord {
  return { low: lowHalf(words, at), high: highHalf(words, at) };
}

export function isSame(one: TurnWord, other: TurnWord): boolean {
  return one.low === other.low && one.high === other.high;
}

/** Turns up to this one, modulo 2^14. */
export function countOfTurn({ high }: TurnWord): number {
  return high >>> COUNT_SHIFT;
}

/** The turn after `before` whose record is there. */
export function turnAfter(before: TurnWord, record: Address, units: number): TurnWord {
  const line = record / UNIT_BYTES;
  const count = countOfTurn(before) + 1;
  const high =
    Math.floor(line / LOW_VALUES) | (units << POINTER_HIGH_BITS) | (count << COUNT_SHIFT);
  return { low: line | 0, high };
}

/** A turn that does nothing but to forestall who has decided on the ground of `before`. */
export function emptyTurnAfter({ low, high }: TurnWord): TurnWord {
  return { low, high: (high + (1 << COUNT_SHIFT)) | 0 };
}

/** Whether the turn after `before` is an empty one: each other has a record of its own. */
export function isEmptyTurn(before: TurnWord, turn: TurnWord): boolean {
  return recordOfTurn(before) === recordOfTurn(turn);
}

/** 0 before the first turn. */
export function recordOfTurn({ low, high }: TurnWord): Address {
  const line = (high & (2 ** POINTER_HIGH_BITS - 1)) * LOW_VALUES + (low >>> 0);
  return line * UNIT_BYTES;
}

export function unitsOfTurn({ high }: TurnWord): number {
  return (high >>> POINTER_HIGH_BITS) & (2 ** UNITS_BITS - 1);
}
