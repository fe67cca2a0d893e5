import { UsageError } from './failures.ts';

/**
 * A pattern over whole keys: `*` any run of characters, `?` one character, `[a-z]` and `[^a-z]` one
 * of a set, `\` takes the next character literally. The same as Redis patterns, by characters.
 */
export function globToRegExp(pattern: string): RegExp {
  let source = '';
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at];
    if (character === '*') source += '.*';
    else if (character === '?') source += '.';
    else if (character === '[') {
      const end = closingBracket(pattern, at);
      source += set(pattern.slice(at + 1, end));
      at = end;
    } else if (character === '\\' && at + 1 < pattern.length) source += literal(pattern[++at]);
    else source += literal(character);
  }
  try {
    return new RegExp(`^${source}$`, 'su');
  } catch {
    throw new UsageError(`'${pattern}' is not a pattern`);
  }
}

function closingBracket(pattern: string, open: number): number {
  for (let at = open + 1; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++;
    else if (pattern[at] === ']') return at;
  }
  throw new UsageError(`'${pattern}' opens a set with [ that it does not close`);
}

/** Inside brackets only a range's dash and a leading ^ keep their meaning. */
function set(body: string): string {
  const negated = body.startsWith('^');
  let source = '';
  for (let at = negated ? 1 : 0; at < body.length; at++) {
    const character = body[at];
    if (character === '\\' && at + 1 < body.length) source += setLiteral(body[++at]);
    else source += literal(character);
  }
  return `[${negated ? '^' : ''}${source}]`;
}

/** A dash taken literally, which between two characters would be a range. */
function setLiteral(character: string): string {
  return character === '-' ? '\\-' : literal(character);
}

function literal(character: string): string {
  // Both halves of a surrogate pair pass unchanged and meet again in the pattern.
  return /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}
