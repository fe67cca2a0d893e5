import { formatCount, formatSize } from '../../store/watching/units.ts';
import { formatDuration, formatRatio } from '../sizes.ts';
import type { Output } from './output.ts';
import { type Style, styleFor } from './style.ts';

const TERMINAL_INTERVAL_MS = 100;
const PLAIN_INTERVAL_MS = 5000;
const BAR_WIDTH = 24;

export interface ProgressState {
  label: string;
  /** Progress, in the unit of `total`. */
  done: number;
  /** Undefined if the input is a pipe. */
  total: number | undefined;
  unit: 'bytes' | 'steps';
  /** Records so far, if `done` counts something else. */
  records?: number;
  elapsedMs: number;
}

/** A line that fits the terminal. Parts that do not fit are omitted from the right. */
export function progressLine(state: ProgressState, columns: number, style: Style): string {
  const { label, bar, rest } = progressParts(state);
  let line = bar === '' ? label : `${label} ${style.green(bar)}`;
  let used = label.length + (bar === '' ? 0 : bar.length + 1);
  for (const part of rest) {
    used += part.length + 2;
    if (used >= columns) break;
    line += `  ${part}`;
  }
  return line;
}

function progressParts(state: ProgressState): { label: string; bar: string; rest: string[] } {
  const { label, done, total, unit, records, elapsedMs } = state;
  const amount = unit === 'bytes' ? formatSize : formatCount;
  const seconds = elapsedMs / 1000;
  const rest: string[] = [];
  let bar = '';
  if (total !== undefined && total > 0) {
    const share = Math.min(1, done / total);
    bar = barOf(share, BAR_WIDTH);
    rest.push(formatRatio(share), `${amount(done)} of ${amount(total)}`);
  } else {
    rest.push(amount(done));
  }
  if (records !== undefined) {
    rest.push(`${formatCount(records)} records`);
    if (seconds > 0) rest.push(`${formatCount(records / seconds)} records/s`);
  }
  if (total !== undefined && done > 0 && done < total && seconds > 0) {
    rest.push(`${formatDuration((seconds * (total - done)) / done)} left`);
  }
  return { label, bar, rest };
}

/** A bar of text that shows a share from 0 to 1. */
export function barOf(share: number, width: number): string {
  const filled = Math.round(Math.min(1, share) * width);
  return '█'.repeat(filled) + '░'.repeat(width - filled);
}

/** A bar that is redrawn in place on a terminal; in logs, a line every 5 s. */
export class Progress {
  readonly #output: Output;
  readonly #style: Style;
  readonly #now: () => number;
  readonly #label: string;
  readonly #unit: 'bytes' | 'steps';
  readonly #interval: number;
  readonly #start: number;
  #next: number;
  #drawn = false;

  constructor(
    context: { stderr: Output; env: NodeJS.ProcessEnv; now: () => number },
    label: string,
    unit: 'bytes' | 'steps',
  ) {
    this.#output = context.stderr;
    this.#style = styleFor(context.stderr.isTTY, context.env);
    this.#now = context.now;
    this.#label = label;
    this.#unit = unit;
    this.#interval = context.stderr.isTTY ? TERMINAL_INTERVAL_MS : PLAIN_INTERVAL_MS;
    this.#start = context.now();
    this.#next = this.#start + this.#interval;
  }

  update(done: number, total: number | undefined, records?: number): void {
    const now = this.#now();
    if (now < this.#next) return;
    this.#next = now + this.#interval;
    const elapsedMs = now - this.#start;
    const state = { label: this.#label, unit: this.#unit, done, total, records, elapsedMs };
    const line = progressLine(state, this.#output.columns, this.#style);
    this.#output.writeNow(this.#output.isTTY ? `\r\x1b[2K${line}` : `${line}\n`);
    this.#drawn = true;
  }

  get seconds(): number {
    return (this.#now() - this.#start) / 1000;
  }

  /** Erases the bar. Call before writing anything else to the terminal. */
  clear(): void {
    if (this.#drawn && this.#output.isTTY) this.#output.writeNow('\r\x1b[2K');
    this.#drawn = false;
  }
}
