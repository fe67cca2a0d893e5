export const NOT_AN_INTEGER = 'ERR value is not an integer or out of range';
export const SYNTAX_ERROR = 'ERR syntax error';
export const INVALID_NAME =
  'ERR Client names cannot contain spaces, newlines or special characters.';

/** Raised by commands for a reply that is an error; `message` is the reply's whole text. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

export function wrongNumberOfArguments(name: string): ReplyError {
  return new ReplyError(`ERR wrong number of arguments for '${name}' command`);
}

/** An option or subcommand in upper case; '' when it is longer than any that exists. */
export function keyword(argument: Buffer): string {
  return argument.length > 32 ? '' : argument.toString('latin1').toUpperCase();
}

/** A decimal integer in Redis' strict form: no plus sign, blanks or leading zeros. */
export function parseInteger(argument: Buffer, error = NOT_AN_INTEGER): bigint {
  const text = argument.length > 20 ? '' : argument.toString('latin1');
  if (!/^(?:0|-?[1-9][0-9]*)$/.test(text)) throw new ReplyError(error);
  const value = BigInt(text);
  if (BigInt.asIntN(64, value) !== value) throw new ReplyError(error);
  return value;
}

/** A connection keeps its names. */
const NAME_BYTES_MAX = 1024;

/** Names that CLIENT accepts are printable and without blanks, so that lists of them stay lists. */
export function isPlainName(argument: Buffer): boolean {
  if (argument.length > NAME_BYTES_MAX) throw new ReplyError('ERR the name is too long');
  return argument.every((byte) => byte >= 0x21 && byte <= 0x7e);
}
