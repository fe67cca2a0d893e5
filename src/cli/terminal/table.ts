import { printable, type Style } from './style.ts';

export interface Column {
  head: string;
  align?: 'left' | 'right';
}

/** Columns as wide as their widest cell. The head is padded, then dimmed. */
export function table(columns: readonly Column[], rows: readonly string[][], style: Style): string {
  const cells = rows.map((row) => row.map(printable));
  const widths = columns.map((column, at) =>
    Math.max(width(column.head), ...cells.map((row) => width(row[at]))),
  );
  const line = (row: readonly string[]): string =>
    columns
      .map((column, at) => pad(row[at], widths[at], column.align ?? 'left'))
      .join('  ')
      .trimEnd();
  return [style.dim(line(columns.map((column) => column.head))), ...cells.map(line)].join('\n');
}

/** Two columns: names on the left, values on the right. */
export function facts(pairs: readonly (readonly [string, string])[], style: Style): string {
  const widest = Math.max(...pairs.map(([name]) => width(name)));
  return pairs
    .map(([name, value]) => `${style.dim(pad(name, widest, 'left'))}  ${printable(value)}`)
    .join('\n');
}

function pad(text: string, to: number, align: 'left' | 'right'): string {
  const space = ' '.repeat(to - width(text));
  return align === 'left' ? text + space : space + text;
}

function width(text: string): number {
  return [...text].length;
}
