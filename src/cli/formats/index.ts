import { UsageError } from '../failures.ts';
import { readCsv } from './csv.ts';
import { readJsonArray } from './json-array.ts';
import { readJsonLines } from './json-lines.ts';
import type { RowSource } from './rows.ts';

export const LOAD_FORMATS = ['jsonl', 'json', 'csv', 'tsv'] as const;
export const DUMP_FORMATS = ['jsonl', 'csv', 'tsv'] as const;
export type LoadFormat = (typeof LOAD_FORMATS)[number];

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
