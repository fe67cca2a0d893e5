import { difference as differenceOf, figure, table } from '../support/text.ts';
import type { Outcome, Row } from './experiment.ts';

export function printed({ title, rows, notes }: Outcome): string {
  const header = ['', 'ours', 'paper', 'difference', 'detail'];
  const cells = rows.map((row) => [
    row.what,
    `${figure(row.ours)} ${row.unit}`,
    row.published === undefined ? '-' : `${figure(row.published)} ${row.unit}`,
    difference(row),
    row.detail ?? '',
  ]);
  return [title, '', table(header, cells), ...notes.map((note) => `  ${note}`)].join('\n');
}

/** How much our figure differs from the paper's. */
export function difference({ ours, published }: Pick<Row, 'ours' | 'published'>): string {
  return published === undefined ? '-' : differenceOf(ours, published);
}
