import type { Row } from './rows.ts';
import { strictText, withoutByteOrderMark } from './utf8.ts';

const LINE_FEED = 10;

/** One JSON value per line; empty lines are allowed. */
export async function* readJsonLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Row> {
  let at = 0;
  for await (const line of splitLines(bytes)) {
    at++;
    const row = parseLine(line, at);
    if (row !== undefined) yield row;
  }
}

function parseLine(line: Uint8Array, at: number): Row | undefined {
  const decoded = strictText(line);
  if (decoded === undefined) return { at, problem: 'not well-formed UTF-8' };
  const text = (at === 1 ? withoutByteOrderMark(decoded) : decoded).trim();
  if (text === '') return undefined;
  try {
    return { at, record: JSON.parse(text), text };
  } catch (error) {
    return { at, problem: `not JSON: ${(error as Error).message}` };
  }
}

/** Splits bytes, not text: a chunk may end inside a character. */
async function* splitLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let open: Uint8Array[] = [];
  for await (const chunk of bytes) {
    let start = 0;
    let end = chunk.indexOf(LINE_FEED);
    while (end !== -1) {
      const part = chunk.subarray(start, end);
      yield open.length === 0 ? part : Buffer.concat([...open, part]);
      open = [];
      start = end + 1;
      end = chunk.indexOf(LINE_FEED, start);
    }
    if (start < chunk.length) open.push(chunk.subarray(start));
  }
  if (open.length > 0) yield Buffer.concat(open);
}
