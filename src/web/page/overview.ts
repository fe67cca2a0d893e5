import type { Percentiles } from '../../pool/clients/meter.ts';
import type { ClientRates, PoolFigures, StoreFigures } from '../../store/watching/figures.ts';
import type { Point } from '../points.ts';
import { Charts } from './charts.ts';
import { type Column, el, table } from './dom.ts';
import { count, duration, latency, share, size } from './format.ts';
import { memoryPanel } from './memory.ts';

const STORE_COLUMNS: readonly Column[] = [
  { head: 'Store' },
  { head: 'Index' },
  { head: 'Records', kind: 'number' },
  { head: 'Load', kind: 'number' },
  { head: 'Memory', kind: 'number' },
  { head: 'Hit rate', kind: 'number' },
  { head: 'Evicted/s', kind: 'number' },
  { head: 'Bound', kind: 'number' },
];

const CLIENT_COLUMNS: readonly Column[] = [
  { head: 'Client' },
  { head: 'Pid', kind: 'number' },
  { head: 'Reads/s', kind: 'number' },
  { head: 'Writes/s', kind: 'number' },
  { head: 'Scanned/s', kind: 'number' },
  { head: 'Hit rate', kind: 'number' },
  { head: 'Read p50', kind: 'number' },
  { head: 'Read p99', kind: 'number' },
  { head: 'Write p50', kind: 'number' },
  { head: 'Write p99', kind: 'number' },
  { head: 'Claimed', kind: 'number' },
  { head: 'Waiting', kind: 'number' },
  { head: 'Told', kind: 'number' },
];

const NOTES =
  'A pool has no server: every client tells its own figures once a second. Latencies are the ' +
  "slowest client's, of its last 10 to 20 seconds. ~ is estimated from some parts of the index.";

/** Figures, charts and tables. */
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

  /** Time of the last point that there is. */
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
  const most = maxRecords === undefined ? size(maxBytes ?? 0) : `${count(maxRecords)} records`;
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
