import { checkKey } from '../../records/codec.ts';
import type { WriteOptions } from '../../store/api.ts';
import type { Operation } from '../../verbs/index.ts';
import {
  keyword,
  parseInteger,
  ReplyError,
  readOptions,
  SYNTAX_ERROR,
  wrongNumberOfArguments,
} from '../arguments.ts';
import { type Command, type CommandContext, type LongReply, signature } from '../command.ts';
import { type Request, requestLimits } from '../protocol/request-reader.ts';
import { OUTPUT_BYTES_MAX } from '../settings.ts';
import { rangeWithin } from './support/byte-range.ts';
import {
  expireAt,
  parseTimeAhead,
  persistKey,
  TIME_UNITS,
  type TimeUnit,
} from './support/expiry.ts';
import { modify } from './support/modify.ts';

export const get: Command = {
  ...signature('get key', 'string', 'readonly', 'fast'),
  summary: 'Returns the value of a key, or null.',
  *run(request, { store, reply, server: { totals } }) {
    const value = yield* store.get(request[1]);
    if (value === undefined) totals.misses++;
    else totals.hits++;
    reply.bulkOrNull(value);
  },
};

/** Keys that MGET looks up at a time. */
const BATCH_KEYS = 256;

export const mget: Command = {
  ...signature('mget key [key ...]', 'string', 'readonly', 'fast'),
  summary: 'Returns the values of several keys, null for each that does not exist.',
  *run(request, context) {
    const keys = request.slice(1);
    // Refuse invalid keys before the reply begins.
    for (const key of keys) checkKey(key);
    const first = yield* valuesFrom(keys, 0, context);
    context.reply.array(keys.length);
    for (const value of first) context.reply.bulkOrNull(value);
    return first.length === keys.length ? undefined : rest(keys, first.length, context);
  },
};

function rest(keys: readonly Buffer[], from: number, context: CommandContext): LongReply {
  let at = from;
  return function* () {
    const values = yield* valuesFrom(keys, at, context);
    for (const value of values) context.reply.bulkOrNull(value);
    at += values.length;
    return at < keys.length;
  };
}

function valuesFrom(
  keys: readonly Buffer[],
  at: number,
  { store }: CommandContext,
): Operation<(Uint8Array | undefined)[]> {
  return store.getMany(keys.slice(at, at + BATCH_KEYS), { maxBytes: OUTPUT_BYTES_MAX });
}

export const getdel: Command = {
  ...signature('getdel key', 'string', 'write', 'fast'),
  summary: 'Returns the value of a key and deletes the key.',
  *run([, key], context) {
    const taken = yield* context.store.take(key);
    context.reply.bulkOrNull(taken);
    if (taken !== undefined) yield* context.changed('g', 'del', key);
  },
};

export const getex: Command = {
  ...signature('getex key [EX|PX|EXAT|PXAT time] [PERSIST]', 'string', 'write', 'fast'),
  summary: 'Returns the value of a key, and sets or removes (PERSIST) its expiry.',
  *run(request, context) {
    const { persist, unit, argument } = parseGetexOptions(request);
    const [, key] = request;
    const value = yield* context.store.get(key);
    if (value === undefined) {
      context.reply.null();
      return;
    }
    const time = unit && argument && parseTimeAhead(argument, unit, 'getex');
    if (time !== undefined) yield* expireAt(key, time, context);
    if (persist) yield* persistKey(key, context);
    context.reply.bulk(value);
  },
};

interface GetexOptions {
  persist: boolean;
  unit?: TimeUnit;
  argument?: Buffer;
}

function parseGetexOptions(request: Request): GetexOptions {
  const options: GetexOptions = { persist: false };
  for (let at = 2; at < request.length; at++) {
    const option = keyword(request[at]);
    const unit = TIME_UNITS[option];
    const argument = request[at + 1];
    const isFirst = options.unit === undefined;
    if (option === 'PERSIST' && isFirst) options.persist = true;
    else if (unit && argument && isFirst && !options.persist) {
      options.unit = unit;
      options.argument = argument;
      at++;
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  return options;
}

export const set: Command = {
  ...signature(
    'set key value [NX|XX] [GET] [EX|PX|EXAT|PXAT time] [KEEPTTL]',
    'string',
    'write',
    'denyoom',
  ),
  summary: 'Sets a key: with an expiry, if absent (NX) or present (XX), returning the old (GET).',
  *run(request, context) {
    const { store, reply } = context;
    const [, key, value] = request;
    if (request.length === 3) {
      yield* store.set(key, value);
      reply.ok();
      yield* context.changed('$', 'set', key);
      return;
    }
    const options = parseSetOptions(request);
    const { written, previous } = yield* store.write(key, value, options);
    if (options.previous) reply.bulkOrNull(previous);
    else if (written) reply.ok();
    else reply.null();
    if (!written) return;
    yield* context.changed('$', 'set', key);
    if (options.expiresAt !== undefined) yield* context.changed('g', 'expire', key);
  },
};

function parseSetOptions(request: Request): WriteOptions {
  const options: WriteOptions = {};
  let time: (() => number) | undefined;
  for (let at = 3; at < request.length; at++) {
    const option = keyword(request[at]);
    const unit = TIME_UNITS[option];
    const argument = request[at + 1];
    if (option === 'NX' && options.when !== 'present') options.when = 'absent';
    else if (option === 'XX' && options.when !== 'absent') options.when = 'present';
    else if (option === 'GET') options.previous = true;
    else if (option === 'KEEPTTL' && time === undefined) options.keepTtl = true;
    else if (unit && argument && time === undefined && !options.keepTtl) {
      time = () => parseTimeAhead(argument, unit, 'set');
      at++;
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  // Parsed last: as in Redis, a syntax error takes precedence over an invalid time.
  if (time !== undefined) options.expiresAt = time();
  return options;
}

export const setnx: Command = {
  ...signature('setnx key value', 'string', 'write', 'denyoom', 'fast'),
  summary: 'Sets a key that does not exist yet.',
  *run([, key, value], context) {
    const inserted = yield* context.store.insert(key, value);
    context.reply.integer(inserted ? 1 : 0);
    if (inserted) yield* context.changed('$', 'set', key);
  },
};

export const setex = setting('setex', 'seconds', { seconds: true, absolute: false });
export const psetex = setting('psetex', 'milliseconds', { seconds: false, absolute: false });

function setting(name: string, unitName: string, unit: TimeUnit): Command {
  return {
    ...signature(`${name} key ${unitName} value`, 'string', 'write', 'denyoom'),
    summary: `Sets a key and its time to live in ${unitName}.`,
    *run([, key, time, value], context) {
      yield* context.store.set(key, value, { expiresAt: parseTimeAhead(time, unit, name) });
      context.reply.ok();
      yield* context.changed('$', 'set', key);
      yield* context.changed('g', 'expire', key);
    },
  };
}

export const getset: Command = {
  ...signature('getset key value', 'string', 'write', 'denyoom', 'fast'),
  summary: 'Sets a key and returns its former value.',
  *run([, key, value], context) {
    const { previous } = yield* context.store.write(key, value, { previous: true });
    context.reply.bulkOrNull(previous);
    yield* context.changed('$', 'set', key);
  },
};

export const mset: Command = {
  ...signature('mset key value [key value ...]', 'string', 'write', 'denyoom'),
  summary: 'Sets several keys. Other clients of the pool see them change one by one.',
  alone: true,
  *run(request, context) {
    const entries = entriesOf(request);
    yield* context.store.setMany(entries);
    context.reply.ok();
    for (const [key] of entries) yield* context.changed('$', 'set', key);
  },
};

export const msetnx: Command = {
  ...signature('msetnx key value [key value ...]', 'string', 'write', 'denyoom'),
  summary: 'Sets several keys if none of them exists.',
  alone: true,
  *run(request, context) {
    const { store } = context;
    // If a key is given twice, its last value counts.
    const entries = new Map(
      entriesOf(request).map(([key, value]) => [key.toString('latin1'), { key, value }]),
    );
    let areNew = true;
    for (const { key } of entries.values()) areNew &&= !(yield* store.has(key));
    const inserted: Buffer[] = [];
    for (const { key, value } of areNew ? entries.values() : []) {
      areNew &&= yield* store.insert(key, value);
      if (areNew) inserted.push(key);
    }
    // Another client has set one of the keys in the meantime.
    if (!areNew) yield* store.deleteMany(inserted);
    context.reply.integer(areNew ? 1 : 0);
    if (areNew) for (const key of inserted) yield* context.changed('$', 'set', key);
  },
};

function entriesOf(request: Request): [key: Buffer, value: Buffer][] {
  if (request.length % 2 === 0) {
    throw wrongNumberOfArguments(request[0].toString('latin1').toLowerCase());
  }
  const entries: [Buffer, Buffer][] = [];
  for (let at = 1; at < request.length; at += 2) entries.push([request[at], request[at + 1]]);
  return entries;
}

export const strlen: Command = {
  ...signature('strlen key', 'string', 'readonly', 'fast'),
  summary: 'Returns the length of a value in bytes; 0 for a key that does not exist.',
  *run(request, { store, reply }) {
    reply.integer((yield* store.read(request[1], (bytes) => bytes.length)) ?? 0);
  },
};

export const getrange = reading('getrange', 'Returns the bytes of a value from start to end.');
export const substr = reading('substr', 'The former name of GETRANGE.');

function reading(name: string, summary: string): Command {
  return {
    ...signature(`${name} key start end`, 'string', 'readonly'),
    summary,
    *run(request, { store, reply }) {
      const start = parseInteger(request[2]);
      const end = parseInteger(request[3]);
      const found = yield* store.read(request[1], (bytes) => {
        const { from, to } = rangeWithin(start, end, bytes.length);
        // `bytes` is memory of the pool, so copy it.
        return Buffer.from(bytes.subarray(from, to));
      });
      reply.bulk(found ?? '');
    },
  };
}

export const append: Command = {
  ...signature('append key value', 'string', 'write', 'denyoom', 'fast'),
  summary: 'Appends to a value, which is empty for a new key; returns the length in bytes.',
  *run([, key, more], context) {
    let length = 0;
    yield* modify(context.store, key, (old) => {
      const value = old === undefined ? more : Buffer.concat([old, more]);
      length = value.length;
      checkLength(length, context);
      return value;
    });
    context.reply.integer(length);
    yield* context.changed('$', 'append', key);
  },
};

export const setrange: Command = {
  ...signature('setrange key offset value', 'string', 'write', 'denyoom'),
  summary: 'Overwrites a value from an offset on, after padding with zeros. Returns the length.',
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

/** Throws Redis's error if a value is longer than a request may set. */
function checkLength(bytes: number, { server }: CommandContext): void {
  if (bytes <= requestLimits(server.limits.requestBytesMax).bulkBytesMax) return;
  throw new ReplyError('ERR string exceeds maximum allowed size (proto-max-bulk-len)');
}

const INTEGER_MIN = -(2n ** 63n);

export const incr = adding('incr key', 'Adds one to an integer', () => 1n);
export const incrby = adding('incrby key number', 'Adds to an integer', parseInteger);
export const decr = adding('decr key', 'Subtracts one from an integer', () => -1n);
export const decrby = adding('decrby key number', 'Subtracts from an integer', (argument) => {
  const by = parseInteger(argument);
  // The one 64-bit integer whose negation is not one.
  if (by === INTEGER_MIN) throw new ReplyError('ERR decrement would overflow');
  return -by;
});

function adding(syntax: string, does: string, amount: (argument: Buffer) => bigint): Command {
  return {
    ...signature(syntax, 'string', 'write', 'denyoom', 'fast'),
    summary: `${does}; a key that does not exist counts as 0.`,
    *run([, key, argument], context) {
      context.reply.integer(yield* context.store.increment(key, amount(argument)));
      yield* context.changed('$', 'incrby', key);
    },
  };
}

const NOT_A_FLOAT = 'ERR value is not a valid float';
const DECIMAL = /^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?$/;
const INFINITE = /^[+-]?inf(?:inity)?$/i;
/** Digits after the decimal point that Redis prints. */
const PLACES = 17;
/** Beyond it a double is infinite; Redis accepts up to 4932. */
const EXPONENT_MAX = 308;
const TEXT_BYTES_MAX = 5 * 1024;

export const incrbyfloat: Command = {
  ...signature('incrbyfloat key number', 'string', 'write', 'denyoom', 'fast'),
  summary: 'Adds to a decimal number, exactly; a key that does not exist counts as 0.',
  *run([, key, by], context) {
    let sum = '';
    yield* modify(context.store, key, (old) => {
      const before = old === undefined ? 0n : parseDecimal(old);
      sum = format(before + parseDecimal(by));
      return Buffer.from(sum);
    });
    context.reply.bulk(sum);
    yield* context.changed('$', 'incrbyfloat', key);
  },
};

/** Parses a number and scales it by 10 to the power of `PLACES`, rounded. */
function parseDecimal(bytes: Uint8Array): bigint {
  const text = bytes.length > TEXT_BYTES_MAX ? '' : Buffer.from(bytes).toString('latin1');
  if (INFINITE.test(text)) throw new ReplyError('ERR increment would produce NaN or Infinity');
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  if (whole + fraction === '' || Math.abs(Number(exponent)) > EXPONENT_MAX) {
    throw new ReplyError(NOT_A_FLOAT);
  }
  const shift = PLACES + Number(exponent) - fraction.length;
  const digits = BigInt(whole + fraction);
  const scaled =
    shift >= 0 ? digits * 10n ** BigInt(shift) : rounded(digits, 10n ** BigInt(-shift));
  return sign === '-' ? -scaled : scaled;
}

function rounded(digits: bigint, by: bigint): bigint {
  return (digits + by / 2n) / by;
}

function format(scaled: bigint): string {
  const digits = String(scaled < 0n ? -scaled : scaled).padStart(PLACES + 1, '0');
  const fraction = digits.slice(-PLACES).replace(/0+$/, '');
  const whole = digits.slice(0, -PLACES);
  return `${scaled < 0n ? '-' : ''}${whole}${fraction && `.${fraction}`}`;
}

export const lcs: Command = {
  ...signature('lcs key1 key2 [LEN|IDX] [MINMATCHLEN length] [WITHMATCHLEN]', 'string', 'readonly'),
  summary: 'Finds the longest common subsequence of two values: its bytes, length or places.',
  *run(request, context) {
    const options = parseLcsOptions(request);
    const { store, reply } = context;
    const a = (yield* store.get(request[1])) ?? new Uint8Array();
    const b = (yield* store.get(request[2])) ?? new Uint8Array();
    const lengths = new CommonLengths(a, b, context);
    if (options.length) {
      reply.integer(lengths.length);
      return;
    }
    const { common, matches } = lengths.trace();
    if (!options.places) {
      reply.bulk(common);
      return;
    }
    const shown = matches.filter(({ length }) => length >= options.lengthMin);
    reply.map(2);
    reply.bulk('matches');
    reply.array(shown.length);
    for (const match of shown) writeMatch(match, options.withLengths, context);
    reply.bulk('len');
    reply.integer(lengths.length);
  },
};

function writeMatch({ a, b, length }: Match, withLength: boolean, { reply }: CommandContext): void {
  reply.array(withLength ? 3 : 2);
  for (const at of [a, b]) {
    reply.array(2);
    reply.integer(at);
    reply.integer(at + length - 1);
  }
  if (withLength) reply.integer(length);
}

const LCS_OPTIONS = { LEN: 0, IDX: 0, WITHMATCHLEN: 0, MINMATCHLEN: 1 };

function parseLcsOptions(request: Request) {
  const { LEN, IDX, WITHMATCHLEN, MINMATCHLEN } = readOptions(request, 3, LCS_OPTIONS);
  if (LEN !== undefined && IDX !== undefined) {
    throw new ReplyError('ERR If you want both the length and indexes, please just use IDX.');
  }
  return {
    length: LEN !== undefined,
    places: IDX !== undefined,
    withLengths: WITHMATCHLEN !== undefined,
    lengthMin: MINMATCHLEN === undefined ? 0 : Number(parseInteger(MINMATCHLEN[0])),
  };
}

/** A run of bytes that both values contain: where it begins in each. */
interface Match {
  a: number;
  b: number;
  length: number;
}

/** Lengths of the longest common subsequences of all pairs of prefixes. */
class CommonLengths {
  readonly #a: Uint8Array;
  readonly #b: Uint8Array;
  readonly #cells: Uint32Array;

  constructor(a: Uint8Array, b: Uint8Array, { server }: CommandContext) {
    this.#a = a;
    this.#b = b;
    const bytes = (a.length + 1) * (b.length + 1) * 4;
    if (bytes > requestLimits(server.limits.requestBytesMax).bulkBytesMax) {
      throw new ReplyError(
        'ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len',
      );
    }
    this.#cells = new Uint32Array(bytes / 4);
    const width = b.length + 1;
    for (let i = 1; i <= a.length; i++) {
      for (let j = 1; j <= b.length; j++) {
        const at = i * width + j;
        this.#cells[at] =
          a[i - 1] === b[j - 1]
            ? this.#cells[at - width - 1] + 1
            : Math.max(this.#cells[at - width], this.#cells[at - 1]);
      }
    }
  }

  get length(): number {
    return this.#cells[this.#cells.length - 1];
  }

  /** The subsequence that Redis would choose, and its runs from the last to the first. */
  trace(): { common: Buffer; matches: Match[] } {
    const [a, b] = [this.#a, this.#b];
    const width = b.length + 1;
    const common = Buffer.alloc(this.length);
    const matches: Match[] = [];
    let open = false;
    for (let i = a.length, j = b.length, left = common.length; i > 0 && j > 0; ) {
      if (a[i - 1] === b[j - 1]) {
        common[--left] = a[i - 1];
        i--;
        j--;
        if (!open) matches.push({ a: i, b: j, length: 0 });
        open = true;
        const match = matches[matches.length - 1];
        match.a = i;
        match.b = j;
        match.length++;
      } else {
        open = false;
        if (this.#cells[(i - 1) * width + j] > this.#cells[i * width + j - 1]) i--;
        else j--;
      }
    }
    return { common, matches };
  }
}
