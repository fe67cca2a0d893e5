import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import { rangeWithin } from './byte-range.ts';

/** A range of BITCOUNT or BITPOS as the client has given it. */
export interface BitRange {
  readonly start: bigint;
  readonly end: bigint;
  readonly ofBits: boolean;
}

/** `[start end [BYTE|BIT]]`; an end that is left out is the last byte. */
export function parseBitRange([start, end, unit]: readonly Buffer[]): BitRange {
  const name = unit === undefined ? 'BYTE' : keyword(unit);
  const range = {
    start: parseInteger(start),
    end: end === undefined ? -1n : parseInteger(end),
    ofBits: name === 'BIT',
  };
  if (name !== 'BIT' && name !== 'BYTE') throw new ReplyError(SYNTAX_ERROR);
  return range;
}

/** Bits of a value that the range names, from the first to before the last. */
export function bitsWithin(
  { start, end, ofBits }: BitRange,
  bytes: number,
): { from: number; to: number } {
  const { from, to } = rangeWithin(start, end, ofBits ? bytes * 8 : bytes);
  return ofBits ? { from, to } : { from: from * 8, to: to * 8 };
}
