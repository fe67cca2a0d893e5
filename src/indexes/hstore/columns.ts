type Column = Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

/** A longer array with what was in the column. */
export function grown<T extends Column>(column: T, length: number): T {
  const longer = new (column.constructor as new (length: number) => T)(length);
  longer.set(column as never);
  return longer;
}
