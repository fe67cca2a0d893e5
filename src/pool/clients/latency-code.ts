/**
 * Latencies as bytes: 8 steps for each doubling, from 0.05 microseconds to 3 minutes, each 9 %
 * above the one before. 0 stands for none.
 */
export const LATENCY_CODES = 256;

const STEPS_PER_DOUBLING = 8;
const LEAST = 0.05;

/** The byte for so many microseconds; those beyond either end count as the end. */
export function latencyCode(microseconds: number): number {
  const steps = Math.floor(STEPS_PER_DOUBLING * Math.log2(Math.max(LEAST, microseconds) / LEAST));
  return Math.min(LATENCY_CODES - 1, 1 + steps);
}

/** Microseconds in the middle of what the byte stands for. */
export function latencyOf(code: number): number {
  return code === 0 ? 0 : LEAST * 2 ** ((code - 0.5) / STEPS_PER_DOUBLING);
}
