import type { Operation } from '../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../arguments.ts';
import { type Command, type CommandContext, signature } from '../command.ts';
import { type Request, requestLimits } from '../protocol/request-reader.ts';
import { rangeWithin } from './support/byte-range.ts';
import { modify } from './support/modify.ts';

const NOT_A_BIT = 'ERR bit is not an integer or out of range';

export const setbit: Command = {
  ...signature('setbit key offset bit', 'bitmap', 'write', 'denyoom'),
  summary: 'Sets one bit of a value and returns what it was.',
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
  ...signature('getbit key offset', 'bitmap', 'readonly', 'fast'),
  summary: 'Returns one bit of a value, 0 behind its end.',
  *run([, key, place], context) {
    const offset = parseBitOffset(place, context);
    const bit = yield* context.store.read(key, (bytes) => bitAt(bytes, offset));
    context.reply.integer(bit ?? 0);
  },
};

const ALL = { start: 0n, end: -1n, ofBits: false };

export const bitcount: Command = {
  ...signature('bitcount key [start end [BYTE|BIT]]', 'bitmap', 'readonly'),
  summary: 'Counts the bits that are 1 in a value, or in a range of its bytes or bits.',
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

/** Counts the bits of a byte by sums of neighbouring bits, pairs and nibbles. */
function onesOf(byte: number): number {
  const pairs = byte - ((byte >> 1) & 0x55);
  const halves = (pairs & 0x33) + ((pairs >> 2) & 0x33);
  return (halves + (halves >> 4)) & 0x0f;
}

export const bitpos: Command = {
  ...signature('bitpos key bit [start [end [BYTE|BIT]]]', 'bitmap', 'readonly'),
  summary: 'Finds the first bit that is 0 or 1 in a value, or in a range of its bytes or bits.',
  *run(request, { store, reply }) {
    const bit = parseInteger(request[2]);
    if (bit !== 0n && bit !== 1n) throw new ReplyError('ERR The bit argument must be 1 or 0.');
    const found = yield* store.read(request[1], (bytes) => {
      if (request.length > 6) throw new ReplyError(SYNTAX_ERROR);
      const range = parseBitRange(request.length === 3 ? [Buffer.from('0')] : request.slice(3));
      const { from, to } = bitsWithin(range, bytes.length);
      const at = firstBit(bytes, Number(bit), from, to);
      // Zeros follow the last byte, unless the client gave an end.
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

/** A range of BITCOUNT or BITPOS, as given by the client. */
interface BitRange {
  readonly start: bigint;
  readonly end: bigint;
  readonly ofBits: boolean;
}

/** Parses `[start end [BYTE|BIT]]`; the default end is the last byte. */
function parseBitRange([start, end, unit]: readonly Buffer[]): BitRange {
  const name = unit === undefined ? 'BYTE' : keyword(unit);
  const range = {
    start: parseInteger(start),
    end: end === undefined ? -1n : parseInteger(end),
    ofBits: name === 'BIT',
  };
  if (name !== 'BIT' && name !== 'BYTE') throw new ReplyError(SYNTAX_ERROR);
  return range;
}

/** Converts a range to bits of a value, from `from` to before `to`. */
function bitsWithin({ start, end, ofBits }: BitRange, bytes: number): { from: number; to: number } {
  const { from, to } = rangeWithin(start, end, ofBits ? bytes * 8 : bytes);
  return ofBits ? { from, to } : { from: from * 8, to: to * 8 };
}

const OPERATIONS: Readonly<Record<string, (a: number, b: number) => number>> = {
  AND: (a, b) => a & b,
  OR: (a, b) => a | b,
  XOR: (a, b) => a ^ b,
  NOT: (a) => ~a,
};

export const bitop: Command = {
  ...signature('bitop operation newkey key [key ...]', 'bitmap', 'write', 'denyoom'),
  summary: 'Sets a key to AND, OR or XOR of values, or NOT of one; returns its length in bytes.',
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

type Overflow = 'WRAP' | 'SAT' | 'FAIL';

/** An operation of BITFIELD on an integer at some bit of a value. */
interface Step {
  readonly action: 'GET' | 'SET' | 'INCRBY';
  readonly signed: boolean;
  readonly width: number;
  readonly offset: number;
  readonly operand: bigint;
  readonly overflow: Overflow;
}

export const bitfield: Command = {
  ...signature('bitfield key [GET|SET|INCRBY|OVERFLOW argument ...]', 'bitmap', 'write', 'denyoom'),
  summary: 'Reads, sets and adds to integers of any width at any bit of a value.',
  *run(request, context) {
    const steps = parseSteps(request, context);
    if (steps.every(({ action }) => action === 'GET')) {
      yield* readFields(request[1], steps, context);
      return;
    }
    let replies: (bigint | undefined)[] = [];
    let isChanged = false;
    const end = Math.max(
      ...steps.map(({ action, offset, width }) => (action === 'GET' ? 0 : offset + width)),
    );
    yield* modify(context.store, request[1], (old = Buffer.alloc(0)) => {
      // As in Redis, the value grows even if every step fails.
      const value = lengthened(old, Math.ceil(end / 8));
      replies = steps.map((step) => apply(step, value));
      isChanged = value.length > old.length || !value.equals(old);
      return isChanged ? value : undefined;
    });
    writeFields(replies, context);
    if (isChanged) yield* context.changed('$', 'setbit', request[1]);
  },
};

export const bitfieldRo: Command = {
  ...signature('bitfield_ro key [GET type offset ...]', 'bitmap', 'readonly', 'fast'),
  summary: 'Reads integers of any width at any bit of a value.',
  *run(request, context) {
    const steps = parseSteps(request, context);
    if (steps.some(({ action }) => action !== 'GET')) {
      throw new ReplyError('ERR BITFIELD_RO only supports the GET subcommand');
    }
    yield* readFields(request[1], steps, context);
  },
};

function* readFields(
  key: Buffer,
  steps: readonly Step[],
  context: CommandContext,
): Operation<void> {
  const value = (yield* context.store.get(key)) ?? new Uint8Array();
  writeFields(
    steps.map((step) => fieldAt(value, step)),
    context,
  );
}

function writeFields(replies: readonly (bigint | undefined)[], { reply }: CommandContext): void {
  reply.array(replies.length);
  for (const each of replies) {
    if (each === undefined) reply.null();
    else reply.integer(each);
  }
}

function parseSteps(request: Request, context: CommandContext): Step[] {
  const steps: Step[] = [];
  let overflow: Overflow = 'WRAP';
  for (let at = 2; at < request.length; ) {
    const name = keyword(request[at]);
    const left = request.length - at - 1;
    if (name === 'OVERFLOW' && left >= 1) {
      overflow = parseOverflow(request[at + 1]);
      at += 2;
    } else if (name === 'GET' && left >= 2) {
      steps.push(parseStep(name, request.slice(at + 1, at + 3), overflow, context));
      at += 3;
    } else if ((name === 'SET' || name === 'INCRBY') && left >= 3) {
      steps.push(parseStep(name, request.slice(at + 1, at + 4), overflow, context));
      at += 4;
    } else {
      throw new ReplyError(SYNTAX_ERROR);
    }
  }
  return steps;
}

function parseOverflow(argument: Buffer): Overflow {
  const name = keyword(argument);
  if (name === 'WRAP' || name === 'SAT' || name === 'FAIL') return name;
  throw new ReplyError('ERR Invalid OVERFLOW type specified');
}

function parseStep(
  action: Step['action'],
  [type, place, operand]: readonly Buffer[],
  overflow: Overflow,
  context: CommandContext,
): Step {
  const [, sign = '', digits = ''] =
    /^([iu])([1-9][0-9]?)$/.exec(type.subarray(0, 4).toString('latin1')) ?? [];
  const width = Number(digits);
  if (sign === '' || width > (sign === 'i' ? 64 : 63)) {
    throw new ReplyError(
      'ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but ' +
        'i64 is.',
    );
  }
  const offset = parseBitOffset(place, context, width);
  const value = operand === undefined ? 0n : parseInteger(operand);
  return { action, signed: sign === 'i', width, offset, operand: value, overflow };
}

/** Undefined if the step overflows and has to fail then. */
function apply(step: Step, value: Uint8Array): bigint | undefined {
  const old = fieldAt(value, step);
  if (step.action === 'GET') return old;
  const wanted = step.action === 'SET' ? step.operand : old + step.operand;
  const stored = fit(wanted, step);
  if (stored === undefined) return undefined;
  for (let i = 0; i < step.width; i++) {
    const bit = Number((stored >> BigInt(step.width - 1 - i)) & 1n);
    setBitAt(value, step.offset + i, bit);
  }
  return step.action === 'SET' ? old : stored;
}

function fit(wanted: bigint, { signed, width, overflow }: Step): bigint | undefined {
  const bits = BigInt(width);
  const max = signed ? 2n ** (bits - 1n) - 1n : 2n ** bits - 1n;
  const min = signed ? -(2n ** (bits - 1n)) : 0n;
  if (wanted >= min && wanted <= max) return wanted;
  if (overflow === 'FAIL') return undefined;
  if (overflow === 'SAT') return wanted > max ? max : min;
  return signed ? BigInt.asIntN(width, wanted) : BigInt.asUintN(width, wanted);
}

function fieldAt(value: Uint8Array, { signed, width, offset }: Step): bigint {
  let bits = 0n;
  for (let i = 0; i < width; i++) bits = (bits << 1n) | BigInt(bitAt(value, offset + i));
  return signed ? BigInt.asIntN(width, bits) : bits;
}

const NOT_AN_OFFSET = 'ERR bit offset is not an integer or out of range';

/**
 * Parses the offset of a bit, where bit 0 is the highest bit of the first byte. `width` is for the
 * form `#n`: the nth field of that width.
 */
function parseBitOffset(argument: Buffer, context: CommandContext, width?: number): number {
  const isField = width !== undefined && argument[0] === 0x23;
  const given = parseInteger(isField ? argument.subarray(1) : argument, NOT_AN_OFFSET);
  const offset = isField ? given * BigInt(width) : given;
  const bytesMax = requestLimits(context.server.limits.requestBytesMax).bulkBytesMax;
  const last = offset + BigInt(width ?? 1) - 1n;
  if (offset >= 0n && last >> 3n < BigInt(bytesMax)) return Number(offset);
  throw new ReplyError(NOT_AN_OFFSET);
}

/** 0 for a bit after the end. */
function bitAt(bytes: Uint8Array, offset: number): 0 | 1 {
  const byte = bytes[Math.floor(offset / 8)] ?? 0;
  return (byte & (0x80 >> (offset & 7))) === 0 ? 0 : 1;
}

function setBitAt(bytes: Uint8Array, offset: number, bit: number): void {
  const at = Math.floor(offset / 8);
  const mask = 0x80 >> (offset & 7);
  if (bit === 0) bytes[at] &= ~mask;
  else bytes[at] |= mask;
}

/** A copy, padded with zeros to at least a length. */
function lengthened(bytes: Uint8Array, length: number): Buffer {
  const copy = Buffer.alloc(Math.max(bytes.length, length));
  copy.set(bytes);
  return copy;
}
