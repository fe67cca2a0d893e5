import { formatCount, formatLatency } from '../../store/watching/units.ts';

const ABSENT = '–';

export function count(amount: number | null): string {
  return amount === null ? ABSENT : formatCount(amount);
}

/** 1 record, 2 records. */
export function records(amount: number): string {
  return `${count(amount)} record${amount === 1 ? '' : 's'}`;
}

export function share(ratio: number | null): string {
  return ratio === null ? ABSENT : `${(100 * ratio).toFixed(1)} %`;
}

export function latency(microseconds: number | null | undefined): string {
  return microseconds === null || microseconds === undefined ? ABSENT : formatLatency(microseconds);
}

export function duration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86_400)} d`;
}
