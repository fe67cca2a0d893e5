import type { AsyncStore } from '../../store/api.ts';
import { defineCommand } from '../command.ts';
import { breathe, type Context, throwIfInterrupted } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { type DumpWriter, dumpWriter, storeLine } from '../formats/dump.ts';
import { DUMP_FORMATS, parseDumpFormat } from '../formats/rows.ts';
import { STORE_OPTION, storeNamed } from '../store-options.ts';

const PAGE = 128;
const FLUSH_LENGTH = 64 * 1024;
export const dump = defineCommand({
  name: 'dump',
  arguments: '<url>',
  summary: 'Write all records to standard output',
  details:
    '  The first line of JSONL describes the store: {"stepwell": {"index": …, …}}. `load` makes\n' +
    '  such a store. CSV and TSV have no place for it.\n' +
    '  A line per record: {"key": …, "value": …, "version": …}. Bytes that are no UTF-8 are\n' +
    '  {"base64": …}; "bytes": true marks text that was stored as bytes. A record that expires\n' +
    '  has "expiresAt": …, or "ttlMs": … and "sliding": true. `load` restores it all but the\n' +
    '  versions. Records written while the dump runs may be in it or not.',
  options: {
    format: {
      value: 'FORMAT',
      read: parseDumpFormat,
      about: `One of ${DUMP_FORMATS.join(', ')} (default: jsonl)`,
    },
    match: {
      value: 'PATTERN',
      read: globToRegExp,
      about: 'Only keys like this: * and ? and [a-z] as in Redis',
    },
    ...STORE_OPTION,
  },
  examples: [
    'dump shm:demo > demo.jsonl',
    "dump shm:demo --format csv --match 'user:*' > users.csv",
    'dump shm:demo | npx stepwell load shm:copy - --format jsonl',
  ],
  async run(context, [url], options) {
    const { open, storeOptions } = await context.library();
    const { format = 'jsonl', match } = options;
    const store = await open(url, { ...storeNamed('dump', options.store), create: false });
    try {
      const writer = dumpWriter(format);
      if (format === 'jsonl') {
        writer.head = storeLine(
          await storeOptions(url, store.name, storeNamed('dump', store.name)),
        );
      }
      await writeAll(context, store, writer, match);
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});

async function writeAll(
  { stdout, signal }: Context,
  store: AsyncStore,
  writer: DumpWriter,
  match: RegExp | undefined,
): Promise<void> {
  let text = writer.head;
  let cursor = 0;
  do {
    const page = await store.scanPage(cursor, PAGE);
    cursor = page.cursor;
    for (const entry of page.entries) {
      if (match !== undefined && !match.test(textOf(entry.key))) continue;
      text += writer.line(entry);
      if (text.length < FLUSH_LENGTH) continue;
      await stdout.write(text);
      text = '';
    }
    await breathe();
    throwIfInterrupted(signal, 'interrupted: the dump is not complete');
  } while (cursor !== 0);
  if (text !== '') await stdout.write(text);
}

/** Matches a key that is not text by its readable part. */
function textOf(key: string | Uint8Array): string {
  return typeof key === 'string' ? key : Buffer.from(key).toString('utf8');
}

/**
 * A pattern for whole keys, as in Redis but by characters instead of bytes: `*` matches any run of
 * characters, `?` one character, `[a-z]` and `[^a-z]` one of a set, `\` quotes the next character.
 */
export function globToRegExp(pattern: string): RegExp {
  let source = '';
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at];
    if (character === '*') source += '.*';
    else if (character === '?') source += '.';
    else if (character === '[') {
      const end = closingBracket(pattern, at);
      source += characterSet(pattern.slice(at + 1, end));
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
function characterSet(body: string): string {
  const negated = body.startsWith('^');
  let source = '';
  for (let at = negated ? 1 : 0; at < body.length; at++) {
    const character = body[at];
    if (character === '\\' && at + 1 < body.length) source += setLiteral(body[++at]);
    else source += literal(character);
  }
  return `[${negated ? '^' : ''}${source}]`;
}

/** Escapes a quoted dash, which between two characters would mean a range. */
function setLiteral(character: string): string {
  return character === '-' ? '\\-' : literal(character);
}

function literal(character: string): string {
  // The halves of a surrogate pair pass unchanged, so the pattern contains the pair again.
  return /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}
