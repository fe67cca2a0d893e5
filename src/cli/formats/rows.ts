/** One record of an input, or what is wrong with it. */
export interface Row {
  /** Number of its line or, in a JSON array, of the record; from 1. */
  at: number;
  record?: unknown;
  /** The record's own text, if it is JSON: kept as it is, it loses no digit of a number. */
  text?: string;
  problem?: string;
}

export interface RowSource {
  unit: 'line' | 'record';
  rows: AsyncIterable<Row>;
  /** How much of the rows has been given, 0..1, where bytes read do not tell it. */
  share?: () => number;
  /** The column that is the key when the user names none, if the format has an order of columns. */
  firstColumn?: () => string | undefined;
}
