import { pipeline, Readable } from 'node:stream';
import { CsvError, type Info, parse } from 'csv-parse';
import { InputError } from '../failures.ts';
import { DUMP_COLUMNS, type DumpRecord, recordOfCells } from './dump-record.ts';
import type { Row, RowSource } from './rows.ts';

/** A little more than the largest value takes when every character of it is a doubled quote. */
const LARGEST_RECORD = 256 * 1024 * 1024;

export interface CsvOptions {
  delimiter: ',' | '\t';
  /** Take the columns of a dump for what they stand for. */
  recogniseDump: boolean;
}

type Cells = Record<string, string>;

interface Parsed {
  record: Cells;
  info: Info;
}

/** Comma- or tab-separated values; the first line names the columns. */
export function readCsv(bytes: AsyncIterable<Uint8Array>, options: CsvOptions): RowSource {
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
    // Tab-separated files mostly come without quoting, so a quote inside a field is only a quote.
    relax_quotes: options.delimiter === '\t',
    skip_empty_lines: true,
    skip_records_with_error: true,
    // In the place of the record, so that what stands before it is read before it is told.
    on_skip: (error) => {
      parser.push({ at: lineOf(error), problem: error?.message ?? 'cannot be read' });
      return undefined;
    },
  });
  // Errors of the source reach the parser's reader.
  pipeline(Readable.from(wellFormed(bytes)), parser, () => {});
  const isDump = () => options.recogniseDump && header.join() === DUMP_COLUMNS.join();
  return { unit: 'line', rows: readRows(parser, isDump), firstColumn: () => header[0] };
}

async function* readRows(
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

/** The parser would put replacement characters in the place of bytes that are no text. */
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
