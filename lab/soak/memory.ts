import { readdirSync, readFileSync } from 'node:fs';
import { median } from '../support/statistics.ts';

/** What a periodic sample measures. */
export interface Sample {
  seconds: number;
  /** Chunks of the pool in use, in bytes. */
  pool: number;
  /** Resident memory without shared pages, in bytes; and open descriptors. */
  gateway: number;
  worker: number;
  gatewayFiles: number;
  workerFiles: number;
}

export type Measure = Exclude<keyof Sample, 'seconds'>;

/** How much the last quarter may exceed the second: a share of it plus a constant. */
export const BOUNDS: Readonly<Record<Measure, { share: number; more: number }>> = {
  pool: { share: 0.1, more: 4 * 2 ** 20 },
  gateway: { share: 0.15, more: 16 * 2 ** 20 },
  worker: { share: 0.15, more: 16 * 2 ** 20 },
  gatewayFiles: { share: 0, more: 4 },
  workerFiles: { share: 0, more: 4 },
};

/** Fewer samples show no trend. */
const SAMPLES_MIN = 16;

export interface Trend {
  measure: Measure;
  /** Medians of the second quarter and of the last. */
  before: number;
  after: number;
  isFlat: boolean;
}

/** Undefined if the run was too short. */
export function trends(samples: readonly Sample[]): Trend[] | undefined {
  if (samples.length < SAMPLES_MIN) return undefined;
  const quarter = Math.floor(samples.length / 4);
  const of = (part: readonly Sample[], measure: Measure) =>
    median(part.map((sample) => sample[measure]));
  return (Object.keys(BOUNDS) as Measure[]).map((measure) => {
    const before = of(samples.slice(quarter, 2 * quarter), measure);
    const after = of(samples.slice(-quarter), measure);
    const { share, more } = BOUNDS[measure];
    return { measure, before, after, isFlat: after <= before * (1 + share) + more };
  });
}

/** 0 if the process has ended. */
export function privateBytes(pid: number | undefined): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const [, anonymous] = /^RssAnon:\s+(\d+) kB/m.exec(status) ?? [];
    return Number(anonymous) * 1024;
  } catch {
    return 0;
  }
}

export function openFiles(pid: number | undefined): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}
