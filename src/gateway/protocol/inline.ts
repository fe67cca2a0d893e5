/**
 * Splits an inline command, the form that people type into telnet: words parted by blanks, with
 * "double" quotes (escapes \n \r \t \b \a \" \\ \xHH) and 'single' quotes (escape \').
 */

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', a: '\x07' };

/**
 * One piece of a word, quoted or bare, over text in which one character is a byte. No two branches
 * match the same text, so an unclosed quote costs no backtracking.
 */
const PIECE = /"((?:\\.|[^"\\])*)"|'((?:\\'|[^'\\]|\\(?!'))*)'|([^ \t\r\n\v\f"']+)/sy;
const BLANKS = /[ \t\r\n\v\f]*/y;

/** The words as bytes, or undefined when a quote is not closed or is followed by more of a word. */
export function splitInline(line: Buffer): Buffer[] | undefined {
  const text = line.toString('latin1');
  const words: Buffer[] = [];
  let word = '';
  let at = blanksEnd(text, 0);
  while (at < text.length) {
    PIECE.lastIndex = at;
    const match = PIECE.exec(text);
    if (match === null) return undefined;
    const [piece, double, single, bare] = match;
    at += piece.length;
    word += bare ?? (double === undefined ? single.replaceAll("\\'", "'") : resolveEscapes(double));
    const next = blanksEnd(text, at);
    if (next > at || next === text.length) {
      words.push(Buffer.from(word, 'latin1'));
      word = '';
      at = next;
    } else if (bare === undefined) {
      return undefined;
    }
  }
  return words;
}

function blanksEnd(text: string, at: number): number {
  BLANKS.lastIndex = at;
  return at + (BLANKS.exec(text)?.[0].length ?? 0);
}

function resolveEscapes(text: string): string {
  return text.replace(/\\(?:x([0-9a-fA-F]{2})|(.))/gs, (_, hex?: string, char = '') =>
    hex === undefined ? (ESCAPES[char] ?? char) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
