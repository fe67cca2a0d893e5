import type { Key, Value } from '../../store/api.ts';
import { InputError } from '../failures.ts';
import { entryOfDump, isDumpRecord, type LoadEntry } from './dump-record.ts';
import type { Row } from './rows.ts';
import { isWellFormed } from './utf8.ts';

const KEY_LIMIT = 65_535;
const VALUE_LIMIT = 64 * 1024 * 1024;

export interface Mapping {
  /** Columns whose texts, joined by `:`, are the key; by default whatever looks like one. */
  key: readonly string[] | undefined;
  /** The column that is the value; by default the whole record as JSON. */
  value: string | undefined;
  firstColumn: () => string | undefined;
}

/** The record of a row; an InputError says what is wrong with it. */
export function entryOf(row: Row, mapping: Mapping): LoadEntry {
  if (row.problem !== undefined) throw new InputError(row.problem);
  const entry = mapRecord(row, mapping);
  const [key, value] = entry;
  checkContent('key', key, KEY_LIMIT);
  checkContent('value', value, VALUE_LIMIT);
  return entry;
}

function mapRecord({ record, text }: Row, mapping: Mapping): LoadEntry {
  if (mapping.key === undefined && mapping.value === undefined && isDumpRecord(record)) {
    return entryOfDump(record);
  }
  if (typeof record !== 'object' || record === null || Array.isArray(record)) {
    throw new InputError('the record is not an object with named fields');
  }
  const fields = record as Record<string, unknown>;
  const columns = mapping.key ?? defaultKey(fields, mapping.firstColumn());
  const key = columns.map((column) => keyText(fields, column)).join(':');
  if (mapping.value === undefined) return [key, text ?? JSON.stringify(record)];
  return [key, valueText(fields, mapping.value)];
}

function defaultKey(fields: Record<string, unknown>, first: string | undefined): string[] {
  if (first !== undefined) return [first];
  const column = ['key', 'id'].find((name) => Object.hasOwn(fields, name));
  if (column === undefined) {
    throw new InputError("the record has no field 'key' or 'id'; say which with --key COLUMN");
  }
  return [column];
}

function fieldOf(fields: Record<string, unknown>, column: string): unknown {
  if (Object.hasOwn(fields, column)) return fields[column];
  const names = Object.keys(fields).slice(0, 8).join(', ');
  throw new InputError(`the record has no field '${column}' (it has: ${names})`);
}

function keyText(fields: Record<string, unknown>, column: string): string {
  const content = fieldOf(fields, column);
  if (typeof content === 'string') return content;
  if (typeof content === 'boolean') return String(content);
  if (typeof content === 'number') {
    // Larger integers have lost digits on the way here: two different keys could have become one.
    if (Number.isInteger(content) && !Number.isSafeInteger(content)) {
      throw new InputError(`field '${column}' is a number too large to be exact; make it a string`);
    }
    return String(content);
  }
  throw new InputError(`field '${column}' is no text, number or boolean, so it cannot be a key`);
}

function valueText(fields: Record<string, unknown>, column: string): string {
  const content = fieldOf(fields, column);
  return typeof content === 'string' ? content : JSON.stringify(content);
}

function checkContent(what: 'key' | 'value', content: Key | Value, limit: number): void {
  if (typeof content === 'string' && !isWellFormed(content)) {
    throw new InputError(`the ${what} holds half a surrogate pair, which has no UTF-8 form`);
  }
  // Cheap bound first: a string takes at most three bytes per unit.
  if (content.length * 3 <= limit) return;
  const length = Buffer.byteLength(content);
  if (length > limit) {
    throw new InputError(`the ${what} has ${length} bytes, more than the ${limit} that fit`);
  }
}
