import uPlot from 'uplot';
import type { Point } from '../points.ts';
import { colour, el } from './dom.ts';
import { count, latency, share, size } from './format.ts';

const HEIGHT = 210;
const KEPT_MS = 30 * 60_000;

type Field = Exclude<keyof Point, 'at'>;

interface Line {
  field: Field;
  label: string;
  colour: string;
  dashed?: boolean;
}

interface Plan {
  title: string;
  lines: readonly Line[];
  format: (value: number) => string;
  logarithmic?: boolean;
  most?: number;
  /** Distances of the lines across, of which the best is taken. */
  steps?: number[];
}

const PLANS: readonly Plan[] = [
  {
    title: 'Operations a second',
    format: count,
    lines: [
      { field: 'reads', label: 'reads', colour: 'reads' },
      { field: 'writes', label: 'writes', colour: 'writes' },
      { field: 'scanned', label: 'scanned', colour: 'scanned' },
      { field: 'evicted', label: 'evicted', colour: 'evicted' },
    ],
  },
  {
    title: 'Latency of the slowest client',
    format: latency,
    logarithmic: true,
    lines: [
      { field: 'readP50', label: 'read p50', colour: 'reads', dashed: true },
      { field: 'readP99', label: 'read p99', colour: 'reads' },
      { field: 'writeP50', label: 'write p50', colour: 'writes', dashed: true },
      { field: 'writeP99', label: 'write p99', colour: 'writes' },
    ],
  },
  {
    title: 'Hit rate',
    format: share,
    most: 1,
    lines: [{ field: 'hitRate', label: 'keys found', colour: 'scanned' }],
  },
  {
    title: 'Memory of the pool',
    format: size,
    steps: Array.from({ length: 40 }, (_, power) => 2 ** power),
    lines: [{ field: 'bytesUsed', label: 'memory', colour: 'reads' }],
  },
];

/** The charts, and the points that they show. */
export class Charts {
  readonly element = el('div', { class: 'charts' });
  #points: Point[] = [];
  #plots: uPlot[] = [];

  constructor() {
    // Colours are drawn into canvases, so they do not follow the style sheet by themselves.
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#build());
    new ResizeObserver(() => this.#resize()).observe(this.element);
  }

  get last(): number {
    return this.#points.at(-1)?.at ?? 0;
  }

  add(points: readonly Point[]): void {
    this.#points.push(...points);
    const from = this.last - KEPT_MS;
    this.#points = this.#points.filter(({ at }) => at > from);
    if (this.#plots.length === 0) this.#build();
    for (const [i, plot] of this.#plots.entries()) plot.setData(this.#dataOf(PLANS[i]));
  }

  #dataOf({ lines, logarithmic }: Plan): uPlot.AlignedData {
    const value = (point: Point, field: Field) => {
      const found = point[field];
      return logarithmic && found === 0 ? null : found;
    };
    const series = lines.map(({ field }) => this.#points.map((point) => value(point, field)));
    return [this.#points.map(({ at }) => at / 1000), ...series];
  }

  #build(): void {
    for (const plot of this.#plots) plot.destroy();
    this.element.replaceChildren();
    this.#plots = PLANS.map((plan) => {
      const card = el('div', { class: 'card' }, el('h2', {}, plan.title));
      this.element.append(card);
      return new uPlot(optionsOf(plan, widthIn(card)), this.#dataOf(plan), card);
    });
  }

  #resize(): void {
    for (const plot of this.#plots) {
      const width = widthIn(plot.root.parentElement as HTMLElement);
      if (width > 0) plot.setSize({ width, height: HEIGHT });
    }
  }
}

function widthIn(card: HTMLElement): number {
  return Math.max(240, card.clientWidth - 32);
}

function optionsOf(
  { lines, format, logarithmic, most, steps }: Plan,
  width: number,
): uPlot.Options {
  const axis = {
    stroke: colour('quiet'),
    grid: { stroke: colour('grid'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  const values = (_plot: uPlot, splits: number[]) => {
    return splits.map((split) => (split === null ? '' : format(split)));
  };
  const range = most === undefined ? undefined : ([0, most] as [number, number]);
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { time: true },
      y: logarithmic
        ? { distr: 3 }
        : { range: range ?? ((_plot, _low, high) => [0, Math.max(1, high * 1.1)]) },
    },
    axes: [
      { ...axis, space: 90, values: clock },
      { ...axis, size: 66, values, ...(steps ? { incrs: steps } : {}) },
    ],
    series: [
      { label: 'time', value: (_plot, at) => (at === null ? '–' : clockText(at)) },
      ...lines.map(({ label, colour: name, dashed }) => ({
        label,
        stroke: colour(name),
        width: 1.6,
        ...(dashed ? { dash: [4, 4] } : {}),
        points: { show: false },
        value: (_plot: uPlot, value: number | null) => (value === null ? '–' : format(value)),
      })),
    ],
  };
}

function clock(_plot: uPlot, splits: number[]): string[] {
  return splits.map(clockText);
}

function clockText(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB');
}
