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
