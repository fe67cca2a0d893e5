import { parseInteger, ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { bitAt, lengthened, parseBitOffset, setBitAt } from '../support/bits.ts';
import { modify } from '../support/modify.ts';

const NOT_A_BIT = 'ERR bit is not an integer or out of range';

export const setbit: Command = {
  name: 'setbit',
  summary: 'Sets one bit of a value and returns what it was.',
  group: 'bitmap',
  arity: 4,
  flags: ['write', 'denyoom'],
  keys: [1, 1, 1],
  *run([, key, place, bit], context) {
    const offset = parseBitOffset(place, context);
    const wanted = Number(parseInteger(bit, NOT_A_BIT));
    if (wanted !== 0 && wanted !== 1) throw new ReplyError(NOT_A_BIT);
    let previous = 0;
    yield* modify(context.store, key, (old = Buffer.alloc(0)) => {
      previous = bitAt(old, offset);
      const value = lengthened(old, Math.floor(offset / 8) + 1);
      setBitAt(value, offset, wanted);
      return value;
    });
    context.reply.integer(previous);
    yield* context.changed('$', 'setbit', key);
  },
};

export const getbit: Command = {
  name: 'getbit',
  summary: 'Returns one bit of a value, 0 behind its end.',
  group: 'bitmap',
  arity: 3,
  flags: ['readonly', 'fast'],
  keys: [1, 1, 1],
  *run([, key, place], context) {
    const offset = parseBitOffset(place, context);
    const bit = yield* context.store.read(key, (bytes) => bitAt(bytes, offset));
    context.reply.integer(bit ?? 0);
  },
};
