import { printable, type Style } from './style.ts';

/**
 * Makes each column as wide as its widest cell. `heads` are separated by ` | `; a colon behind one
 * aligns its column to the right, as in Markdown: `NAME | RECORDS:`.
 */
export function table(heads: string, rows: readonly string[][], style: Style): string {
  const columns = heads.split(' | ');
  const names = columns.map((head) => head.replace(/:$/, ''));
  const cells = rows.map((row) => row.map(printable));
  const widths = names.map((name, at) =>
    Math.max(width(name), ...cells.map((row) => width(row[at]))),
  );
  const line = (row: readonly string[]): string =>
    columns
      .map((head, at) => pad(row[at], widths[at], head.endsWith(':') ? 'right' : 'left'))
      .join('  ')
      .trimEnd();
  // Dimmed once padded: escape sequences have no width.
  return [style.dim(line(names)), ...cells.map(line)].join('\n');
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
