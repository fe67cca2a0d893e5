import type { BinaryNotation } from './binary.ts';
import { DUMP_COLUMNS, type Dumped, dumpCells, dumpRecord } from './dump-record.ts';

export interface DumpWriter {
  /** What stands before the first record. */
  head: string;
  line(entry: Dumped): string;
}

/** With a notation, every key and value is written in it, also those that are text. */
export function dumpWriter(format: 'jsonl' | 'csv' | 'tsv', notation?: BinaryNotation): DumpWriter {
  const record = (entry: Dumped) => dumpRecord(entry, notation);
  if (format === 'jsonl') {
    return { head: '', line: (entry) => `${JSON.stringify(record(entry))}\n` };
  }
  const delimiter = format === 'csv' ? ',' : '\t';
  return {
    head: `${DUMP_COLUMNS.join(delimiter)}\n`,
    line: (entry) => `${dumpCells(record(entry)).map(quoted).join(delimiter)}\n`,
  };
}

/** Quotes as RFC 4180 does, and also around tabs and spaces at the ends, which readers may trim. */
function quoted(cell: string): string {
  if (!/[",\t\r\n]|^[\s\ufeff]|\s$/.test(cell)) return cell;
  return `"${cell.replaceAll('"', '""')}"`;
}
