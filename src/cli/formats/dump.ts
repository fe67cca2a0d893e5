import type { Entry, ExpiryOptions, Key, Value } from '../../store/api.ts';
import type { StoreOptions } from '../../store/store-in-pool.ts';
import { InputError } from '../failures.ts';
import { strictText } from './utf8.ts';

/** Text, or bytes that are not well-formed UTF-8. */
export type DumpField = string | { base64: string };

/** One record of a dump: a line of JSON. */
export interface DumpRecord {
  key: DumpField;
  value: DumpField;
  version?: number;
  /** The value is well-formed text, but was stored as bytes. */
  bytes?: true;
  /** Key and value are bytes in this notation. */
  encoding?: BinaryNotation;
  /** The value in this notation was stored as text. */
  text?: true;
  /** When the record expires, in milliseconds since 1970. */
  expiresAt?: number;
  /** How long after each read the record expires, in milliseconds; with `sliding`. */
  ttlMs?: number;
  sliding?: true;
}

export const DUMP_COLUMNS = ['key', 'value', 'version', 'encoding'] as const;
const MEMBERS = 'key value version bytes encoding text expiresAt ttlMs sliding'.split(' ');

/** A record that `dump` or `scan` writes; a scan has no versions. */
type Dumped = Omit<Entry<Value>, 'version'> & { version?: number };

function dumpRecord({ expires, ...entry }: Dumped, notation?: BinaryNotation): DumpRecord {
  return Object.assign(contentRecord(entry, notation), expires);
}

function contentRecord(
  { key, value, version }: Dumped,
  notation: BinaryNotation | undefined,
): DumpRecord {
  if (notation !== undefined) {
    const written = (content: Key | Value) => Buffer.from(content as string).toString(notation);
    const record: DumpRecord = { key: written(key), value: written(value), version };
    record.encoding = notation;
    if (typeof value === 'string') record.text = true;
    return record;
  }
  const record: DumpRecord = { key: field(key), value: field(value), version };
  if (typeof value !== 'string' && typeof record.value === 'string') record.bytes = true;
  return record;
}

function field(content: Key | Value): DumpField {
  if (typeof content === 'string') return content;
  const text = strictText(content);
  return text ?? { base64: Buffer.from(content).toString('base64') };
}

/** Whether `dump` wrote a record of a JSON file, and not the user. */
export function isDumpRecord(record: unknown): record is DumpRecord {
  if (!isObject(record)) return false;
  const { key, value, encoding, expiresAt, ttlMs, sliding } = record as Partial<DumpRecord>;
  if (!Object.keys(record).every((name) => MEMBERS.includes(name))) return false;
  if (expiresAt !== undefined && (!isTime(expiresAt) || ttlMs !== undefined)) return false;
  if ((ttlMs !== undefined || sliding !== undefined) && !(isTime(ttlMs) && sliding)) return false;
  if (encoding === undefined) return isField(key) && isField(value);
  return (
    BINARY_NOTATIONS.includes(encoding) && typeof key === 'string' && typeof value === 'string'
  );
}

function isTime(content: unknown): boolean {
  return typeof content === 'number' && content > 0 && content <= Number.MAX_SAFE_INTEGER;
}

function isField(content: unknown): content is DumpField {
  if (typeof content === 'string') return true;
  if (typeof content !== 'object' || content === null) return false;
  return typeof (content as { base64?: unknown }).base64 === 'string';
}

const STORE_MEMBERS = ['index', 'maxRecords', 'maxBytes', 'eviction'];

/** The first line of a dump in JSONL: the options of `open` that make its store. */
export function storeLine(store: StoreOptions): string {
  return `${JSON.stringify({ stepwell: store })}\n`;
}

/** The store that the first line of a dump describes; undefined if it is a record. */
export function storeOfDump(record: unknown): StoreOptions | undefined {
  if (!isObject(record) || Object.keys(record).join() !== 'stepwell') return undefined;
  const { stepwell: store } = record;
  if (!isObject(store) || !Object.hasOwn(store, 'index')) return undefined;
  const unknown = Object.keys(store).find((name) => !STORE_MEMBERS.includes(name));
  if (unknown === undefined) return store;
  throw new InputError(`the store has '${unknown}', which this version does not know`);
}

function isObject(content: unknown): content is Record<string, unknown> {
  return typeof content === 'object' && content !== null && !Array.isArray(content);
}

/** A record to store, and its expiry, if it has one. */
export type LoadEntry = [key: Key, value: Value, expires?: ExpiryOptions];

export function entryOfDump(record: DumpRecord): LoadEntry {
  const { key, value, bytes, encoding, text, expiresAt, ttlMs } = record;
  const content = fieldContent(value, encoding);
  const entry: LoadEntry = [
    fieldContent(key, encoding),
    valueContent(content, bytes === true, text === true),
  ];
  if (expiresAt !== undefined) entry.push({ expiresAt });
  else if (ttlMs !== undefined) entry.push({ ttlMs, sliding: true });
  return entry;
}

function fieldContent(field: DumpField, encoding: BinaryNotation | undefined): string | Uint8Array {
  if (typeof field === 'string' && encoding === undefined) return field;
  const [text, notation] =
    typeof field === 'string' ? [field, encoding!] : [field.base64, 'base64' as const];
  const bytes = decodeStrictly(text, notation);
  if (bytes === undefined) throw new InputError(`${notation} text is damaged`);
  return bytes;
}

function valueContent(content: Value, isBytes: boolean, isText: boolean): Value {
  if (typeof content === 'string') return isBytes ? Buffer.from(content) : content;
  if (!isText) return content;
  const text = strictText(content);
  if (text === undefined) throw new InputError('the value is marked as text and is none');
  return text;
}

/** The cells of a record in CSV or TSV; `encoding` says which of them are not plain text. */
function dumpCells(record: DumpRecord): string[] {
  const encoding: string[] = [];
  const cell = (name: string, content: DumpField): string => {
    if (typeof content !== 'string') encoding.push(`${name}=base64`);
    else if (record.encoding) encoding.push(`${name}=${record.encoding}`);
    return typeof content === 'string' ? content : content.base64;
  };
  const key = cell('key', record.key);
  const value = cell('value', record.value);
  if (record.bytes) encoding.push('value=bytes');
  if (record.text) encoding.push('value=text');
  if (record.expiresAt !== undefined) encoding.push(`expires=${record.expiresAt}`);
  if (record.ttlMs !== undefined) encoding.push(`slides=${record.ttlMs}`);
  return [key, value, String(record.version ?? ''), encoding.join(' ')];
}

export function recordOfCells(cells: Record<string, string>): DumpRecord {
  const encoding = new Set(cells.encoding.split(' '));
  const read = (name: string): DumpField =>
    encoding.has(`${name}=base64`) ? { base64: cells[name] } : cells[name];
  const record: DumpRecord = { key: read('key'), value: read('value') };
  if (encoding.has('value=bytes')) record.bytes = true;
  if (encoding.has('value=text')) record.text = true;
  if (encoding.has('value=hex')) record.encoding = 'hex';
  for (const word of encoding) {
    const [, kind, milliseconds] = /^(expires|slides)=(\d+)$/.exec(word) ?? [];
    if (kind === 'expires') record.expiresAt = Number(milliseconds);
    if (kind === 'slides') Object.assign(record, { ttlMs: Number(milliseconds), sliding: true });
  }
  return record;
}

export interface DumpWriter {
  /** Text before the first record. */
  head: string;
  line(entry: Dumped): string;
}

/** Writes every key and value in the notation, if there is one, even text. */
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

/** Quotes as in RFC 4180, and also tabs, and spaces at the ends, which readers may trim. */
function quoted(cell: string): string {
  if (!/[",\t\r\n]|^[\s\ufeff]|\s$/.test(cell)) return cell;
  return `"${cell.replaceAll('"', '""')}"`;
}

/** Notations of bytes as text. */
const BINARY_NOTATIONS = ['hex', 'base64'] as const;
export type BinaryNotation = (typeof BINARY_NOTATIONS)[number];

/** Undefined if any part of the text is invalid: Node would silently drop that part. */
export function decodeStrictly(text: string, notation: BinaryNotation): Uint8Array | undefined {
  const bytes = Buffer.from(text, notation);
  const again = bytes.toString(notation);
  const same =
    notation === 'hex'
      ? again === text.toLowerCase()
      : again.replace(/=+$/, '') === text.replace(/=+$/, '');
  return same ? bytes : undefined;
}
