import type { Operation } from '../../verbs/index.ts';
import { parseInteger, ReplyError } from '../arguments.ts';
import type { Command, CommandContext } from '../command.ts';
import { modify } from './support/modify.ts';

const INTEGER_MIN = -(2n ** 63n);
const shared = {
  group: 'string',
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
} as const;

export const incr: Command = {
  ...shared,
  name: 'incr',
  summary: 'Adds one to an integer; a key that does not exist counts as 0.',
  arity: 2,
  *run([, key], context) {
    yield* add(key, 1n, context);
  },
};

export const incrby: Command = {
  ...shared,
  name: 'incrby',
  summary: 'Adds to an integer; a key that does not exist counts as 0.',
  arity: 3,
  *run([, key, by], context) {
    yield* add(key, parseInteger(by), context);
  },
};

export const decr: Command = {
  ...shared,
  name: 'decr',
  summary: 'Subtracts one from an integer; a key that does not exist counts as 0.',
  arity: 2,
  *run([, key], context) {
    yield* add(key, -1n, context);
  },
};

export const decrby: Command = {
  ...shared,
  name: 'decrby',
  summary: 'Subtracts from an integer; a key that does not exist counts as 0.',
  arity: 3,
  *run([, key, argument], context) {
    const by = parseInteger(argument);
    // This is the one 64-bit integer without a negation.
    if (by === INTEGER_MIN) throw new ReplyError('ERR decrement would overflow');
    yield* add(key, -by, context);
  },
};

function* add(key: Buffer, by: bigint, context: CommandContext): Operation<void> {
  context.reply.integer(yield* context.store.increment(key, by));
  yield* context.changed('$', 'incrby', key);
}

const NOT_A_FLOAT = 'ERR value is not a valid float';
const DECIMAL = /^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?$/;
const INFINITE = /^[+-]?inf(?:inity)?$/i;
/** Redis prints so many digits behind the point. */
const PLACES = 17;
/** Beyond it a double is infinite; Redis goes on to 4932. */
const EXPONENT_MAX = 308;
const TEXT_BYTES_MAX = 5 * 1024;

export const incrbyfloat: Command = {
  name: 'incrbyfloat',
  summary: 'Adds to a decimal number, exactly; a key that does not exist counts as 0.',
  group: 'string',
  arity: 3,
  flags: ['write', 'denyoom', 'fast'],
  keys: [1, 1, 1],
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

/** The number times 10 to the power of `PLACES`, rounded. */
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
