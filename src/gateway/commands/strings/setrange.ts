import { parseInteger, ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { modify } from '../support/modify.ts';
import { checkLength } from '../support/string-length.ts';

export const setrange: Command = {
  name: 'setrange',
  summary: 'Overwrites bytes of a value from a place on; zeros fill the gap. Returns the length.',
  group: 'string',
  arity: 4,
  flags: ['write', 'denyoom'],
  keys: [1, 1, 1],
  *run([, key, offset, piece], context) {
    const at = parseInteger(offset);
    if (at < 0n) throw new ReplyError('ERR offset is out of range');
    let length = 0;
    yield* modify(context.store, key, (old = Buffer.alloc(0)) => {
      length = old.length;
      if (piece.length === 0) return undefined;
      checkLength(Number(at) + piece.length, context);
      length = Math.max(old.length, Number(at) + piece.length);
      const value = Buffer.alloc(length);
      old.copy(value);
      piece.copy(value, Number(at));
      return value;
    });
    context.reply.integer(length);
    if (piece.length > 0) yield* context.changed('$', 'setrange', key);
  },
};
