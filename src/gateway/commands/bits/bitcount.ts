import { ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { bitsWithin, parseBitRange } from '../support/bit-range.ts';
import { bitAt } from '../support/bits.ts';

const ALL = { start: 0n, end: -1n, ofBits: false };

export const bitcount: Command = {
  name: 'bitcount',
  summary: 'Counts the bits that are 1 in a value, or in a range of its bytes or bits.',
  group: 'bitmap',
  arity: -2,
  flags: ['readonly'],
  keys: [1, 1, 1],
  *run(request, { store, reply }) {
    const found = yield* store.read(request[1], (bytes) => {
      if (request.length === 3 || request.length > 5) throw new ReplyError(SYNTAX_ERROR);
      const range = request.length === 2 ? ALL : parseBitRange(request.slice(2));
      const { from, to } = bitsWithin(range, bytes.length);
      return countOnes(bytes, from, to);
    });
    reply.integer(found ?? 0);
  },
};

function countOnes(bytes: Uint8Array, from: number, to: number): number {
  let count = 0;
  let at = from;
  for (; at < to && at % 8 !== 0; at++) count += bitAt(bytes, at);
  for (; at + 8 <= to; at += 8) count += onesOf(bytes[at / 8]);
  for (; at < to; at++) count += bitAt(bytes, at);
  return count;
}

/** Sums of neighbouring bits, pairs and halves. */
function onesOf(byte: number): number {
  const pairs = byte - ((byte >> 1) & 0x55);
  const halves = (pairs & 0x33) + ((pairs >> 2) & 0x33);
  return (halves + (halves >> 4)) & 0x0f;
}
