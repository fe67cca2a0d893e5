export const NOT_AN_INTEGER = 'ERR value is not an integer or out of range';
export const SYNTAX_ERROR = 'ERR syntax error';
export const INVALID_NAME =
  'ERR Client names cannot contain spaces, newlines or special characters.';

/** Thrown by commands for an error reply; `message` is its whole text. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

export function wrongNumberOfArguments(name: string): ReplyError {
  return new ReplyError(`ERR wrong number of arguments for '${name}' command`);
}

/** An option in upper case; '' if it is longer than any that exists. */
export function keyword(argument: Buffer): string {
  return argument.length > 32 ? '' : argument.toString('latin1').toUpperCase();
}

/**
 * Reads options from the word at `from` on, each followed by as many arguments as `counts` says. An
 * option given twice has its last arguments. `refuse` makes the error for a word that is no option.
 */
export function readOptions<Name extends string>(
  words: readonly Buffer[],
  from: number,
  counts: Readonly<Record<Name, number>>,
  refuse = (_word: Buffer) => new ReplyError(SYNTAX_ERROR),
): Partial<Record<Name, readonly Buffer[]>> {
  const options: Partial<Record<Name, readonly Buffer[]>> = {};
  for (let at = from; at < words.length; ) {
    const name = keyword(words[at]) as Name;
    const end = at + 1 + (Object.hasOwn(counts, name) ? counts[name] : Number.POSITIVE_INFINITY);
    if (end > words.length) throw refuse(words[at]);
    options[name] = words.slice(at + 1, end);
    at = end;
  }
  return options;
}

/** Parses a decimal integer in Redis's strict form: no plus sign, spaces or leading zeros. */
export function parseInteger(argument: Buffer, error = NOT_AN_INTEGER): bigint {
  const text = argument.length > 20 ? '' : argument.toString('latin1');
  if (!/^(?:0|-?[1-9][0-9]*)$/.test(text)) throw new ReplyError(error);
  const value = BigInt(text);
  if (BigInt.asIntN(64, value) !== value) throw new ReplyError(error);
  return value;
}

/** Bounds the memory that a connection's names take. */
const NAME_BYTES_MAX = 1024;

/** Whether a name is printable and without spaces, so that CLIENT LIST can be parsed. */
export function isPlainName(argument: Buffer): boolean {
  if (argument.length > NAME_BYTES_MAX) throw new ReplyError('ERR the name is too long');
  return argument.every((byte) => byte >= 0x21 && byte <= 0x7e);
}
