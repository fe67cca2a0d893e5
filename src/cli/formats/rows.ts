import { constants } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { CsvError, type Info, parse } from 'csv-parse';
import { InputError, UsageError } from '../failures.ts';
import { DUMP_COLUMNS, type DumpRecord, recordOfCells } from './dump.ts';
import { strictText, withoutByteOrderMark } from './utf8.ts';

/** One record of the input, or what is wrong with it. */
export interface Row {
  /** Number of the line or, in a JSON array, of the record; from 1. */
  at: number;
  record?: unknown;
  /** The record as JSON text: parsing could lose digits of a number. */
  text?: string;
  problem?: string;
}

export interface RowSource {
  unit: 'line' | 'record';
  rows: AsyncIterable<Row>;
  /** The share of rows yielded so far, from 0 to 1, if the bytes read do not show it. */
  share?: () => number;
  /** The default key column, in formats with ordered columns. */
  firstColumn?: () => string | undefined;
}

export const LOAD_FORMATS = ['jsonl', 'json', 'csv', 'tsv'] as const;
export const DUMP_FORMATS = ['jsonl', 'csv', 'tsv'] as const;
type LoadFormat = (typeof LOAD_FORMATS)[number];

const EXTENSIONS: Record<string, LoadFormat> = {
  jsonl: 'jsonl',
  ndjson: 'jsonl',
  json: 'json',
  csv: 'csv',
  tsv: 'tsv',
  tab: 'tsv',
};

/** Readers for `--format`. */
export const parseLoadFormat = oneOf(LOAD_FORMATS);
export const parseDumpFormat = oneOf(DUMP_FORMATS);

function oneOf<F extends string>(formats: readonly F[]): (text: string) => F {
  return (text) => {
    const format = formats.find((known) => known === text.toLowerCase());
    if (format !== undefined) return format;
    throw new UsageError(`'${text}' is none of ${formats.join(', ')}`);
  };
}

export function formatOfFile(file: string): LoadFormat {
  const extension = /\.([^./\\]+)(?:\.gz)?$/i.exec(file)?.[1].toLowerCase() ?? '';
  if (Object.hasOwn(EXTENSIONS, extension)) return EXTENSIONS[extension];
  const what = file === '-' ? 'standard input' : `'${file}'`;
  throw new UsageError(`cannot tell the format of ${what}; say --format ${LOAD_FORMATS.join('|')}`);
}

export function readRows(
  format: LoadFormat,
  bytes: AsyncIterable<Uint8Array>,
  options: { recogniseDump: boolean },
): RowSource {
  if (format === 'jsonl') return { unit: 'line', rows: readJsonLines(bytes) };
  if (format === 'json') return readJsonArray(bytes);
  return readCsv(bytes, { ...options, delimiter: format === 'csv' ? ',' : '\t' });
}

/** More than the largest value takes if every character is a doubled quote. */
const LARGEST_RECORD = 256 * 1024 * 1024;

interface CsvOptions {
  delimiter: ',' | '\t';
  /** Whether to read rows with the columns of a dump as dumped records. */
  recogniseDump: boolean;
}

type Cells = Record<string, string>;

interface Parsed {
  record: Cells;
  info: Info;
}

/** Comma- or tab-separated values; the first line names the columns. */
function readCsv(bytes: AsyncIterable<Uint8Array>, options: CsvOptions): RowSource {
  let header: string[] = [];
  const parser = parse<Parsed>({
    columns: (names: string[]) => {
      header = names;
      return names;
    },
    bom: true,
    delimiter: options.delimiter,
    info: true,
    max_record_size: LARGEST_RECORD,
    // Tab-separated files are rarely quoted, so a quote inside a field is just a character.
    relax_quotes: options.delimiter === '\t',
    skip_empty_lines: true,
    skip_records_with_error: true,
    // Replaces the record in the stream, so that earlier records are yielded first.
    on_skip: (error) => {
      parser.push({ at: lineOf(error), problem: error?.message ?? 'cannot be read' });
      return undefined;
    },
  });
  // Passes errors of the source to the parser's reader.
  pipeline(Readable.from(wellFormed(bytes)), parser, () => {});
  const isDump = () => options.recogniseDump && header.join() === DUMP_COLUMNS.join();
  return { unit: 'line', rows: csvRows(parser, isDump), firstColumn: () => header[0] };
}

async function* csvRows(
  parser: AsyncIterable<Parsed | Row>,
  isDump: () => boolean,
): AsyncGenerator<Row> {
  try {
    for await (const parsed of parser) {
      if ('info' in parsed) {
        const { record, info } = parsed;
        const row: Cells | DumpRecord = isDump() ? recordOfCells(record) : record;
        yield { at: info.lines, record: row };
      } else {
        yield parsed;
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    yield { at: lineOf(error), problem: error.message };
  }
}

function lineOf(error: CsvError | undefined): number {
  const lines: unknown = error?.lines;
  return typeof lines === 'number' ? lines : 0;
}

/** Rejects malformed UTF-8: the parser would replace it with U+FFFD. */
async function* wellFormed(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let offset = 0;
  const check = (chunk?: Uint8Array): void => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new InputError(`not well-formed UTF-8 (after byte ${offset})`);
    }
  };
  for await (const chunk of bytes) {
    check(chunk);
    offset += chunk.length;
    yield chunk;
  }
  check();
}

const HINT = 'for one record per line, say --format jsonl';

/** Reads the whole JSON array into memory; larger inputs need JSON Lines. */
function readJsonArray(bytes: AsyncIterable<Uint8Array>): RowSource {
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

const LINE_FEED = 10;

/** One JSON value per line; empty lines are allowed. */
async function* readJsonLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Row> {
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
