/** Formats a latency as in 0.45 µs, 12 µs, 3.4 ms, 1.2 s. */
export function formatLatency(microseconds: number): string {
  if (microseconds < 1000) return `${digits(microseconds)} µs`;
  if (microseconds < 1e6) return `${digits(microseconds / 1000)} ms`;
  return `${digits(microseconds / 1e6)} s`;
}

/** Two or three digits: our latencies are no more precise. */
function digits(amount: number): string {
  if (amount >= 10) return amount.toFixed(0);
  return amount >= 1 ? amount.toFixed(1) : amount.toFixed(2);
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a number of bytes as in 512 B, 1.5 KiB, 4 GiB. */
export function formatSize(bytes: number): string {
  let amount = bytes;
  let power = 0;
  for (; amount >= 1024 && power < SIZES.length - 1; power++) amount /= 1024;
  return `${amount.toFixed(Number.isInteger(amount) || amount >= 100 ? 0 : 1)} ${SIZES[power]}`;
}

/** 171075 as 171,075 in every locale, because scripts and tests read it too. */
export function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}
