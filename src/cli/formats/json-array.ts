import { constants } from 'node:buffer';
import { InputError } from '../failures.ts';
import type { Row, RowSource } from './rows.ts';
import { strictText, withoutByteOrderMark } from './utf8.ts';

const HINT = 'for one record per line, say --format jsonl';

/** A whole JSON array in memory; JSON Lines is the format for more than fits there. */
export function readJsonArray(bytes: AsyncIterable<Uint8Array>): RowSource {
  let share = 0;
  async function* rows(): AsyncGenerator<Row> {
    const records = parseArray(await wholeText(bytes));
    for (let at = 0; at < records.length; at++) {
      share = at / records.length;
      yield { at: at + 1, record: records[at] };
    }
  }
  return { unit: 'record', rows: rows(), share: () => share };
}

async function wholeText(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of bytes) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > constants.MAX_STRING_LENGTH) {
      throw new InputError(`a JSON array of this size cannot be read at once; ${HINT}`);
    }
  }
  const text = strictText(Buffer.concat(chunks));
  if (text === undefined) throw new InputError('not well-formed UTF-8');
  return withoutByteOrderMark(text);
}

function parseArray(text: string): unknown[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new InputError(`not JSON: ${(error as Error).message}; ${HINT}`);
  }
  if (!Array.isArray(parsed)) throw new InputError(`not a JSON array; ${HINT}`);
  return parsed;
}
