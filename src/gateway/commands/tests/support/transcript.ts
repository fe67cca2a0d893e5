import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { splitInline } from '../../../protocol/request-reader.ts';
import { array } from '../../../tests/support/exchange.ts';

/**
 * Conversations with a server, recorded from Redis 7.0. A section begins with `== its name`. A
 * request is an inline command at the beginning of a line. The lines of its reply follow behind
 * four blanks, with bytes that cannot be printed as `\xHH`.
 */
export interface Section {
  readonly file: string;
  readonly name: string;
  /** Why Redis answers something else. */
  readonly differs?: string;
  readonly exchanges: readonly Exchange[];
}

export interface Exchange {
  readonly request: string;
  readonly reply: readonly string[];
}

export const TRANSCRIPTS = join(import.meta.dirname, '../transcripts');
const INDENT = '    ';

export function readTranscripts(): Section[] {
  return readdirSync(TRANSCRIPTS).flatMap((file) =>
    parse(file, readFileSync(join(TRANSCRIPTS, file), 'utf8')),
  );
}

export function parse(file: string, text: string): Section[] {
  return text
    .split(/^== /m)
    .slice(1)
    .map((part) => {
      const [title, ...lines] = part.replace(/\n+$/, '').split('\n');
      const [, name, differs] = /^(.*?)(?: \(differs: (.*)\))?$/.exec(title) ?? [];
      const exchanges: { request: string; reply: string[] }[] = [];
      for (const line of lines) {
        if (line === '') continue;
        if (line.startsWith(INDENT)) exchanges.at(-1)?.reply.push(line.slice(INDENT.length));
        else exchanges.push({ request: line, reply: [] });
      }
      return { file, name, ...(differs && { differs }), exchanges };
    });
}

export function format(sections: readonly Section[]): string {
  return sections
    .map(({ name, differs, exchanges }) => {
      const title = `== ${name}${differs === undefined ? '' : ` (differs: ${differs})`}`;
      const lines = exchanges.flatMap(({ request, reply }) => [
        request,
        ...reply.map((line) => INDENT + line),
      ]);
      return `${[title, ...lines].join('\n')}\n`;
    })
    .join('\n');
}

/** All requests of a section, as a client sends them. */
export function requestsOf({ exchanges }: Section): Buffer {
  return Buffer.concat(
    exchanges.map(({ request }) => array(...(splitInline(Buffer.from(request)) ?? []))),
  );
}

/** The replies to a section, request by request, as they stand in a transcript. */
export function repliesOf(section: Section, received: string): Section {
  let at = 0;
  const exchanges = section.exchanges.map(({ request }) => {
    const begin = at;
    for (let left = confirmations(request); left > 0; left--) at = endOfReply(received, at);
    return { request, reply: shown(received.slice(begin, at)) };
  });
  const last = exchanges[exchanges.length - 1];
  if (at < received.length) last.reply.push(...shown(received.slice(at)));
  return { ...section, exchanges };
}

/** Subscriptions are confirmed one by one. */
function confirmations(request: string): number {
  const [name, ...words] = request.split(' ');
  return /^p?subscribe$/i.test(name) ? Math.max(1, words.length) : 1;
}

function shown(text: string): string[] {
  if (text === '') return [];
  const lines = text.replace(/\r\n$/, '').split('\r\n');
  return lines.map((line) =>
    line.replaceAll(/[^\x20-\x7e]|\\| $/g, (character) => {
      const code = character.charCodeAt(0).toString(16).padStart(2, '0');
      return character === '\\' ? '\\\\' : `\\x${code}`;
    }),
  );
}

/** Where the reply ends that begins at `at`; the end of what was received if it breaks off. */
function endOfReply(received: string, at: number): number {
  const lineEnd = received.indexOf('\r\n', at) + 2;
  if (lineEnd < 2) return received.length;
  const length = Number(received.slice(at + 1, lineEnd - 2));
  const type = received[at];
  if ('$=!'.includes(type)) return length < 0 ? lineEnd : lineEnd + length + 2;
  let end = lineEnd;
  const elements = type === '%' ? length * 2 : length;
  if ('*%~>'.includes(type)) for (let i = 0; i < elements; i++) end = endOfReply(received, end);
  return end;
}
