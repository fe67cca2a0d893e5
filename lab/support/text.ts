/** A text table. The first `left` columns are left-aligned, the others right-aligned. */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  left = 1,
): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (i < left ? cell.padEnd(widths[i]) : cell.padStart(widths[i])))
      .join('  ')
      .trimEnd();
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [line(header), rule, ...rows.map(line)].join('\n');
}

/** 1234567 as 1,234,567. */
export function grouped(value: number): string {
  if (!Number.isFinite(value)) return '-';
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

/** About three significant digits: 0.123, 12.3, 1,234. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  if (size >= 100) return grouped(value);
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function mebibytes(bytes: number): string {
  return `${figure(bytes / 2 ** 20)} MiB`;
}

/** A share in percent, with one decimal or as many as `digits`. */
export function percent(share: number, digits = 1): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : '-';
}

/** How much `ours` differs from `published`, in percent of it. */
export function difference(ours: number, published: number): string {
  const percents = 100 * (ours / published - 1);
  return `${percents >= 0 ? '+' : ''}${percents.toFixed(1)} %`;
}
