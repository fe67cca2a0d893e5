import type { RangeBounds } from '../../../store/ordered-api.ts';
import { ReplyError } from '../../arguments.ts';

const OPEN = 0x28; // (
const CLOSED = 0x5b; // [
const NOT_A_RANGE = 'ERR min or max not valid string range item';

/**
 * A range as the BYLEX commands of sorted sets write it: `[key` with the key, `(key` without, `-`
 * and `+` for the ends of everything. Undefined when nothing can be in it.
 */
export function parseRange(min: Buffer, max: Buffer): RangeBounds | undefined {
  const low = parseEnd(min);
  const high = parseEnd(max);
  if (low === 'highest' || high === 'lowest') return undefined;
  const bounds: RangeBounds = {};
  if (low !== 'lowest') bounds[low.closed ? 'gte' : 'gt'] = low.key;
  if (high !== 'highest') bounds[high.closed ? 'lte' : 'lt'] = high.key;
  return bounds;
}

type End = 'lowest' | 'highest' | { closed: boolean; key: Uint8Array };

function parseEnd(argument: Buffer): End {
  if (argument.length === 1 && argument[0] === 0x2d) return 'lowest';
  if (argument.length === 1 && argument[0] === 0x2b) return 'highest';
  const [sign] = argument;
  if (sign !== OPEN && sign !== CLOSED) throw new ReplyError(NOT_A_RANGE);
  return { closed: sign === CLOSED, key: argument.subarray(1) };
}
