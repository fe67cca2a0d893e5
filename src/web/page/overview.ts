import uPlot from 'uplot';
import type { Percentiles } from '../../pool/clients/meter.ts';
import type { ClientRates, PoolFigures, StoreFigures } from '../../store/watching/figures.ts';
import { formatSize as size } from '../../store/watching/units.ts';
import type { Point } from '../points.ts';
import { colour, el, svg, table } from './dom.ts';
import { count, duration, latency, records, share } from './format.ts';

const STORE_COLUMNS =
  'Store | Index | Records: | Load: | Memory: | Hit rate: | Evicted/s: | Bound:';

const CLIENT_COLUMNS =
  'Client | Pid: | Reads/s: | Writes/s: | Scanned/s: | Hit rate: | Read p50: | Read p99: | ' +
  'Write p50: | Write p99: | Claimed: | Waiting: | Told:';

const NOTES =
  'A pool has no server: every client reports its own figures once a second. Latencies are those ' +
  'of the slowest client in its last 10 to 20 seconds. ~ marks an estimate from parts of an index.';

/** The first tab: figures, charts and tables. */
export class Overview {
  readonly #tiles = el('div', { class: 'tiles' });
  readonly #charts = new Charts();
  readonly #memory = el('div', { class: 'card' });
  readonly #stores = el('div', { class: 'card' });
  readonly #clients = el('div', { class: 'card' });

  constructor(panel: HTMLElement) {
    const notes = el('p', { class: 'notes' }, NOTES);
    const cards = [this.#memory, this.#stores, this.#clients];
    panel.append(this.#tiles, this.#charts.element, ...cards, notes);
  }

  /** Time of the latest point. */
  get last(): number {
    return this.#charts.last;
  }

  addPoints(points: readonly Point[]): void {
    if (points.length > 0) this.#charts.add(points);
  }

  show(figures: PoolFigures): void {
    const { sum, clients, clientsMax, stores, bytesUsed, sizeMax } = figures;
    const evicted = stores.reduce((all, { bound }) => all + (bound?.evictionsPerSecond ?? 0), 0);
    const network = clients.filter((client) => client.network).length;
    const tails = (of: Percentiles | null) =>
      `p50 ${latency(of?.p50)} · p99.9 ${latency(of?.p999)}`;
    this.#tiles.replaceChildren(
      tile('Reads', `${count(sum.reads)}/s`, `${share(sum.hitRate)} found`),
      tile('Writes', `${count(sum.writes)}/s`, 'removals too'),
      tile('Scanned', `${count(sum.scanned)}/s`, 'records of walks'),
      tile('Read p99', latency(sum.readLatency?.p99), tails(sum.readLatency)),
      tile('Write p99', latency(sum.writeLatency?.p99), tails(sum.writeLatency)),
      tile('Evicted', `${count(evicted)}/s`, 'bounded stores'),
      tile('Clients', count(clients.length), `of ${count(clientsMax)}, ${network} by network`),
      tile('Memory', size(bytesUsed), `${share(bytesUsed / sizeMax)} of ${size(sizeMax)}`),
    );
    this.#memory.replaceChildren(...memoryPanel(figures));
    this.#stores.replaceChildren(
      el('h2', {}, 'Stores'),
      table(STORE_COLUMNS, stores.map(storeRow), 'There is no store.'),
    );
    const busiest = [...clients].sort((a, b) => b.reads + b.writes - a.reads - a.writes);
    this.#clients.replaceChildren(
      el('h2', {}, 'Clients'),
      table(CLIENT_COLUMNS, busiest.map(clientRow), 'No client has a store open.'),
    );
  }
}

function tile(name: string, value: string, note: string): HTMLElement {
  const about = el('dd', { class: 'note' }, note);
  return el('dl', { class: 'card tile' }, el('dt', {}, name), el('dd', {}, value), about);
}

function storeRow({ name, index, state, bytes, load, bound }: StoreFigures): string[] {
  const about = load?.isExact === false ? '~' : '';
  const records = bound ? count(bound.records) : load ? about + count(load.records) : '–';
  return [
    state === 'ready' ? name : `${name} (${state})`,
    index,
    records,
    load ? about + share(load.records / Math.max(1, load.slots)) : '–',
    size(bytes),
    bound ? share(bound.hitRate) : '–',
    bound ? count(bound.evictionsPerSecond) : '–',
    bound ? boundText(bound) : '–',
  ];
}

function boundText({ maxRecords, maxBytes, eviction }: NonNullable<StoreFigures['bound']>): string {
  const most = maxRecords === undefined ? size(maxBytes ?? 0) : records(maxRecords);
  return `${most}, ${eviction}`;
}

function clientRow(client: ClientRates): (Node | string)[] {
  const { name, pid, reads, writes, scanned, hitRate, readLatency, writeLatency } = client;
  const { toldAgo, claimed, waiting } = client;
  const rate = (of: number) => (toldAgo === null ? '–' : count(of));
  const badges = [
    client.alive ? null : 'gone',
    client.lags ? 'holds back memory' : null,
    client.network ? 'network' : null,
  ].filter((text) => text !== null);
  const shown = badges.map((text) => el('span', { class: 'badge' }, text));
  return [
    el('span', {}, name, ...shown),
    String(pid),
    rate(reads),
    rate(writes),
    rate(scanned),
    share(hitRate),
    latency(readLatency?.p50),
    latency(readLatency?.p99),
    latency(writeLatency?.p50),
    latency(writeLatency?.p99),
    size(claimed),
    size(waiting),
    toldAgo === null ? 'nothing' : `${duration(toldAgo)} ago`,
  ];
}

const PARTS = [
  ['live', 'live'],
  ['claimed', 'claimed ahead'],
  ['waiting', 'waiting for an epoch'],
  ['freeBlocks', 'free blocks'],
  ['freeChunks', 'free chunks'],
  ['overhead', 'overhead'],
] as const;

const BLOCK_COLUMNS = 'Store | Block size: | Chunks: | Used: | Free: | Live:';

const BAR_WIDTH = 1000;
const BAR_HEIGHT = 14;
/** How many block sizes to show: those with the most free memory. */
const SIZES_MAX = 12;

/** Where the memory of the pool is: a bar of all of it, then blocks by store and size. */
function memoryPanel({ memory, clients }: PoolFigures): Node[] {
  const { total, stores, blocks } = memory;
  const largest = [...blocks].sort((a, b) => b.free - a.free).slice(0, SIZES_MAX);
  const hidden = blocks.length - largest.length;
  const more = `${count(hidden)} block sizes with less free memory are not shown.`;
  const rows = stores.flatMap(({ store, used, free, live }) => [
    [nameOf(store), 'all', '', size(used), size(free), live === null ? '?' : size(live)],
    ...largest
      .filter((one) => one.store === store)
      .sort((a, b) => a.blockSize - b.blockSize)
      .map(({ blockSize, chunks, used, free }) => {
        return ['', size(blockSize), count(chunks), size(used), size(free), ''];
      }),
  ]);
  const legend = PARTS.map(([part, name]) => {
    const title = share(memory[part] / total);
    const text = ` ${name} `;
    return el('span', { title }, el('i', { class: part }), text, el('b', {}, size(memory[part])));
  });
  return [
    el('h2', {}, 'Memory'),
    bar(memory),
    el('p', { class: 'summary memory' }, ...legend),
    ...waitingNote(clients),
    table(BLOCK_COLUMNS, rows, 'No store has memory.'),
    ...(hidden === 0 ? [] : [el('p', { class: 'notes' }, more)]),
  ];
}

function bar(memory: PoolFigures['memory']): SVGElement {
  let x = 0;
  const rects = PARTS.map(([part]) => {
    const width = (BAR_WIDTH * memory[part]) / memory.total;
    const rect = svg('rect', { class: part, x, y: 0, width, height: BAR_HEIGHT });
    x += width;
    return rect;
  });
  const attributes = { viewBox: `0 0 ${BAR_WIDTH} ${BAR_HEIGHT}`, preserveAspectRatio: 'none' };
  return svg('svg', { class: 'memory', 'aria-hidden': 'true', ...attributes }, ...rects);
}

function waitingNote(clients: readonly ClientRates[]): Node[] {
  const owners = clients.filter(({ waiting }) => waiting > 0);
  if (owners.length === 0) return [];
  const whose = owners.map(({ name, waiting }) => `${name} ${size(waiting)}`).join(', ');
  const holders = clients.filter(({ lags }) => lags).map(({ name }) => name);
  const by = holders.length === 0 ? '' : `; held back by ${holders.join(', ')}`;
  return [el('p', { class: 'notes' }, `Waiting for an epoch: ${whose}${by}`)];
}

function nameOf(store: string): string {
  return store === '' ? '(no store)' : store;
}

const CHART_HEIGHT = 210;
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
  /** Allowed distances between grid lines; the chart chooses one. */
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
class Charts {
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
      if (width > 0) plot.setSize({ width, height: CHART_HEIGHT });
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
    height: CHART_HEIGHT,
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
    // A filled marker is a solid line, a dashed frame a dashed one of the same colour.
    legend: {
      markers: {
        dash: (_plot, i) => (lines[i - 1]?.dashed ? 'dashed' : 'solid'),
        fill: (_plot, i) => (lines[i - 1]?.dashed ? 'transparent' : colour(lines[i - 1].colour)),
      },
    },
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
