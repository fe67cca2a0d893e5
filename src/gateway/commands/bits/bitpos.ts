import { parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { bitsWithin, parseBitRange } from '../support/bit-range.ts';
import { bitAt } from '../support/bits.ts';

export const bitpos: Command = {
  name: 'bitpos',
  summary: 'Finds the first bit that is 0 or 1 in a value, or in a range of its bytes or bits.',
  group: 'bitmap',
  arity: -3,
  flags: ['readonly'],
  keys: [1, 1, 1],
  *run(request, { store, reply }) {
    const bit = parseInteger(request[2]);
    if (bit !== 0n && bit !== 1n) throw new ReplyError('ERR The bit argument must be 1 or 0.');
    const found = yield* store.read(request[1], (bytes) => {
      if (request.length > 6) throw new ReplyError(SYNTAX_ERROR);
      const range = parseBitRange(request.length === 3 ? [Buffer.from('0')] : request.slice(3));
      const { from, to } = bitsWithin(range, bytes.length);
      const at = firstBit(bytes, Number(bit), from, to);
      // Zeros follow the last byte, unless the client has said where to end.
      return at < 0 && bit === 0n && request.length < 5 && to > from ? bytes.length * 8 : at;
    });
    reply.integer(found ?? (bit === 1n ? -1 : 0));
  },
};

function firstBit(bytes: Uint8Array, bit: number, from: number, to: number): number {
  const without = bit === 0 ? 0xff : 0;
  for (let at = from; at < to; at++) {
    while (at % 8 === 0 && at + 8 <= to && bytes[at / 8] === without) at += 8;
    if (at < to && bitAt(bytes, at) === bit) return at;
  }
  return -1;
}
