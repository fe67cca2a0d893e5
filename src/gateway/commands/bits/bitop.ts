import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';

const OPERATIONS: Readonly<Record<string, (a: number, b: number) => number>> = {
  AND: (a, b) => a & b,
  OR: (a, b) => a | b,
  XOR: (a, b) => a ^ b,
  NOT: (a) => ~a,
};

export const bitop: Command = {
  name: 'bitop',
  summary: 'Sets a key to AND, OR or XOR of values, or NOT of one; returns its length in bytes.',
  group: 'bitmap',
  arity: -4,
  flags: ['write', 'denyoom'],
  keys: [2, -1, 1],
  alone: true,
  *run(request, context) {
    const { store, reply } = context;
    const [, name, target, ...sources] = request;
    const operation = OPERATIONS[keyword(name)];
    if (operation === undefined) throw new ReplyError(SYNTAX_ERROR);
    if (keyword(name) === 'NOT' && sources.length !== 1) {
      throw new ReplyError('ERR BITOP NOT must be called with a single source key.');
    }
    const values: Uint8Array[] = [];
    for (const key of sources) values.push((yield* store.get(key)) ?? new Uint8Array());
    const [first, ...others] = values;
    const length = Math.max(first.length, ...others.map((value) => value.length));
    const result = Buffer.alloc(length);
    for (let at = 0; at < length; at++) {
      let byte = first[at] ?? 0;
      if (others.length === 0) byte = keyword(name) === 'NOT' ? operation(byte, 0) : byte;
      for (const other of others) byte = operation(byte, other[at] ?? 0);
      result[at] = byte;
    }
    if (length > 0) {
      yield* store.set(target, result);
      yield* context.changed('$', 'set', target);
    } else if (yield* store.delete(target)) yield* context.changed('g', 'del', target);
    reply.integer(length);
  },
};
