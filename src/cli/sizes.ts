import { parseSize as bytesIn } from '../store/sizes.ts';
import { formatCount } from '../store/watching/units.ts';
import { UsageError } from './failures.ts';

/** A reader for sizes. */
export function parseSize(text: string): number {
  try {
    return bytesIn(text);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** A reader for options that are whole numbers within a range. */
export function parseCount(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const count = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (count >= min && count <= max) return count;
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new UsageError(`'${text}' is not a whole number ${range}`);
  };
}

/** A reader for durations in seconds, which may have a fraction. */
export function parseSeconds(text: string): number {
  const seconds = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (seconds > 0 && seconds <= 86_400) return seconds;
  throw new UsageError(`'${text}' is not a number of seconds`);
}

export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** 0.8 s, 12.3 s, 4:05, 1:02:03. */
export function formatDuration(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const pad = (part: number) => String(part).padStart(2, '0');
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return hours > 0
    ? `${hours}:${pad(minutes)}:${pad(whole % 60)}`
    : `${minutes}:${pad(whole % 60)}`;
}

export function formatRatio(ratio: number): string {
  return `${(ratio * 100).toFixed(1)}%`;
}
