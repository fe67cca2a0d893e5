import { parseInteger, ReplyError } from '../arguments.ts';
import { type Command, signature } from '../command.ts';
import { modify } from './support/modify.ts';

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
