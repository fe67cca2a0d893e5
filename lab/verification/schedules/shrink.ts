import { RACE_SUBJECT } from '../subjects/race.ts';
import {
  newSimulationMemory,
  type RunOptions,
  type RunReport,
  runSchedule,
  scenarioFor,
} from './simulation.ts';

/** Schedules tried for each smaller program: leaving a call out shifts the whole schedule. */
const SCHEDULES_TRIED = 150;

interface Shrunk {
  options: RunOptions;
  report: RunReport;
}

/** Bounds of the search for a smaller program. */
interface ShrinkBounds {
  /** Default: no limit; the search ends by itself. */
  milliseconds?: number;
  /** Schedules tried for each smaller program. */
  schedules?: number;
}

/** Removes calls as long as some schedule still fails in the same way. */
export function shrink(options: RunOptions, report: RunReport, bounds: ShrinkBounds): Shrunk {
  const { milliseconds = Number.POSITIVE_INFINITY, schedules = SCHEDULES_TRIED } = bounds;
  const end = Date.now() + milliseconds;
  const { clients } = scenarioFor(options);
  let ids = clients.flatMap(({ items }) => items.map(({ id }) => id));
  if (options.keep) ids = ids.filter((id) => options.keep?.has(id));
  let best: Shrunk = { options, report };
  for (let size = ids.length >> 1; size > 0 && Date.now() < end; ) {
    let smaller = false;
    for (let first = 0; first < ids.length && Date.now() < end; first += size) {
      const rest = ids.filter((_, i) => i < first || i >= first + size);
      const failing = firstFailing({ ...options, keep: new Set(rest) }, report, schedules);
      if (failing === undefined) continue;
      best = failing;
      ids = rest;
      smaller = true;
    }
    if (!smaller) size >>= 1;
    else size = Math.min(size, ids.length >> 1);
  }
  return best;
}

function firstFailing(
  options: RunOptions,
  { failure }: RunReport,
  schedules: number,
): Shrunk | undefined {
  const memory = newSimulationMemory();
  for (let schedule = 0; schedule < schedules; schedule++) {
    const tried = { ...options, schedule };
    const report = runSchedule(tried, memory);
    if (report.failure?.kind === failure?.kind) return { options: tried, report };
  }
  return undefined;
}

/** A command that replays the run. */
export function commandFor(options: RunOptions): string {
  const { seed, policy, schedule, keep, crashes, canary, subject = RACE_SUBJECT } = options;
  const parts = [
    `stepwell-lab verify ${subject.kind.manifest.name}`,
    `--seed ${seed}`,
    `--policy ${policy}`,
  ];
  if (schedule) parts.push(`--schedule ${schedule}`);
  if (keep) parts.push(`--keep ${[...keep].join(',')}`);
  if (crashes === false) parts.push('--crash-free');
  if (canary) parts.push(`--canary '${canary.name}'`);
  return parts.join(' ');
}
