import type { Entry, Key, Value } from '../../store/api.ts';
import { InputError } from '../failures.ts';
import { strictText } from './utf8.ts';

/** Text, or any bytes that are no well-formed UTF-8. */
export type DumpField = string | { base64: string };

/** One record of a dump, as it stands on a line of JSON. */
export interface DumpRecord {
  key: DumpField;
  value: DumpField;
  version?: number;
  /** The value was put as bytes although it is well-formed text, and shall come back as bytes. */
  bytes?: true;
}

export const DUMP_COLUMNS = ['key', 'value', 'version', 'encoding'] as const;
const MEMBERS = new Set(['key', 'value', 'version', 'bytes']);

/** What a dump or a scan writes of a record; a scan knows no versions. */
export type Dumped = Omit<Entry<Value>, 'version'> & { version?: number };

export function dumpRecord({ key, value, version }: Dumped): DumpRecord {
  const record: DumpRecord = { key: field(key), value: field(value), version };
  if (typeof value !== 'string' && typeof record.value === 'string') record.bytes = true;
  return record;
}

function field(content: Key | Value): DumpField {
  if (typeof content === 'string') return content;
  const text = strictText(content);
  return text ?? { base64: Buffer.from(content).toString('base64') };
}

/** Whether a record of a JSON file is one that `dump` wrote, and not somebody's own. */
export function isDumpRecord(record: unknown): record is DumpRecord {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return false;
  const { key, value } = record as Partial<DumpRecord>;
  return isField(key) && isField(value) && Object.keys(record).every((name) => MEMBERS.has(name));
}

function isField(content: unknown): content is DumpField {
  if (typeof content === 'string') return true;
  if (typeof content !== 'object' || content === null) return false;
  return typeof (content as { base64?: unknown }).base64 === 'string';
}

export function entryOfDump({ key, value, bytes }: DumpRecord): [Key, Value] {
  const content = fieldContent(value);
  const asBytes = bytes === true && typeof content === 'string';
  return [fieldContent(key), asBytes ? Buffer.from(content) : content];
}

function fieldContent(content: DumpField): string | Uint8Array {
  if (typeof content === 'string') return content;
  const bytes = Buffer.from(content.base64, 'base64');
  // Buffer skips what is not base64, so only a text that comes back the same was base64.
  if (bytes.toString('base64').replace(/=+$/, '') !== content.base64.replace(/=+$/, '')) {
    throw new InputError('base64 text is damaged');
  }
  return bytes;
}

/** The cells of a record in a CSV or TSV dump; `encoding` says which cells are not plain text. */
export function dumpCells(record: DumpRecord): string[] {
  const encoding: string[] = [];
  const cell = (name: string, content: DumpField): string => {
    if (typeof content === 'string') return content;
    encoding.push(`${name}=base64`);
    return content.base64;
  };
  const key = cell('key', record.key);
  const value = cell('value', record.value);
  if (record.bytes) encoding.push('value=bytes');
  return [key, value, String(record.version ?? ''), encoding.join(' ')];
}

export function recordOfCells(cells: Record<string, string>): DumpRecord {
  const encoding = new Set(cells.encoding.split(' '));
  const read = (name: string): DumpField =>
    encoding.has(`${name}=base64`) ? { base64: cells[name] } : cells[name];
  const record: DumpRecord = { key: read('key'), value: read('value') };
  if (encoding.has('value=bytes')) record.bytes = true;
  return record;
}
