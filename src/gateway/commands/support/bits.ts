import { parseInteger, ReplyError } from '../../arguments.ts';
import type { CommandContext } from '../../command.ts';
import { requestLimits } from '../../protocol/request-reader.ts';

const NOT_AN_OFFSET = 'ERR bit offset is not an integer or out of range';

/**
 * The place of a bit; the highest bit of the first byte is bit 0. `width` is for the form `#n`,
 * the nth field of that width.
 */
export function parseBitOffset(argument: Buffer, context: CommandContext, width?: number): number {
  const isField = width !== undefined && argument[0] === 0x23;
  const given = parseInteger(isField ? argument.subarray(1) : argument, NOT_AN_OFFSET);
  const offset = isField ? given * BigInt(width) : given;
  const bytesMax = requestLimits(context.server.limits.requestBytesMax).bulkBytesMax;
  const last = offset + BigInt(width ?? 1) - 1n;
  if (offset >= 0n && last >> 3n < BigInt(bytesMax)) return Number(offset);
  throw new ReplyError(NOT_AN_OFFSET);
}

/** 0 for a bit behind the end. */
export function bitAt(bytes: Uint8Array, offset: number): 0 | 1 {
  const byte = bytes[Math.floor(offset / 8)] ?? 0;
  return (byte & (0x80 >> (offset & 7))) === 0 ? 0 : 1;
}

export function setBitAt(bytes: Uint8Array, offset: number, bit: number): void {
  const at = Math.floor(offset / 8);
  const mask = 0x80 >> (offset & 7);
  if (bit === 0) bytes[at] &= ~mask;
  else bytes[at] |= mask;
}

/** The same bytes, with zeros behind them up to a length. */
export function lengthened(bytes: Uint8Array, length: number): Buffer {
  const copy = Buffer.alloc(Math.max(bytes.length, length));
  copy.set(bytes);
  return copy;
}
