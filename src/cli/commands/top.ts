import type { Percentiles } from '../../pool/clients/meter.ts';
import type {
  ClientRates,
  PoolFigures,
  Rates,
  StoreFigures,
} from '../../store/watching/figures.ts';
import type { PoolObserver } from '../../store/watching/observer.ts';
import { formatCount, formatLatency, formatSize } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import type { Context, ExitHost } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatDuration, formatRatio, parseSeconds } from '../sizes.ts';
import { barOf } from '../terminal/progress.ts';
import { printable, type Style, styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const INTERVAL_SECONDS = 1;
/** A rate needs two readings, and clients report once a second. */
const ONCE_SECONDS = 2.2;

export const top = defineCommand({
  name: 'top',
  arguments: '<url>',
  summary: 'Watch a pool: operations a second, latencies, hits, evictions, load, clients, memory',
  details:
    '  q or Ctrl-C ends it. With --once, and where standard output is no terminal, it looks for\n' +
    '  two seconds and prints what it saw; with --json alone, a line of JSON for each look.\n' +
    '  A pool has no server: every client counts what it does and writes that into its row of\n' +
    '  the pool once a second. Records and load that are marked with ~ are estimated from some\n' +
    '  parts of each index.',
  options: {
    interval: {
      value: 'SECONDS',
      read: parseSeconds,
      about: `Seconds from one look to the next (default: ${INTERVAL_SECONDS})`,
    },
    once: { about: 'Print one view and end' },
    json: { about: 'Print JSON' },
  },
  examples: ['top shm:demo', 'top shm:demo --once --json | jq .sum', 'top tcp://127.0.0.1:7471'],
  async run(context, [url], { interval = INTERVAL_SECONDS, once, json }) {
    const { signal } = context;
    const observe = await context.observe();
    const observer = await observe(url, url, { client: 'stepwell top' });
    try {
      if (json && !once) await printLines(context, observer, signal, interval);
      else if (once || !context.stdout.isTTY) await printOnce(context, observer, signal, json);
      else await show(context, observer, signal, interval);
      return EXIT.ok;
    } finally {
      await observer.close();
    }
  },
});

async function printOnce(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  json: boolean,
): Promise<void> {
  await observer.observe();
  await context.pause(ONCE_SECONDS * 1000, signal);
  const figures = await observer.observe();
  const lines = frameOf(figures, { columns: Number.POSITIVE_INFINITY }, styleFor(false, {}));
  await context.stdout.line(json ? JSON.stringify(figures, null, 2) : lines.join('\n'));
}

async function printLines(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  interval: number,
): Promise<void> {
  await observer.observe();
  while (!signal.aborted) {
    await context.pause(interval * 1000, signal);
    if (!signal.aborted) await context.stdout.line(JSON.stringify(await observer.observe()));
  }
}

/** Redraws the view. A failure is shown in its place, and the next reading attaches again. */
async function show(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  interval: number,
): Promise<void> {
  const { stdout, env } = context;
  const style = styleFor(true, env);
  const ended = new AbortController();
  const either = AbortSignal.any([signal, ended.signal]);
  let draw = () => {};
  const onKey = (key: string) => {
    if (key === 'q') ended.abort();
  };
  const screen = new Screen(context, context.exitHost, onKey, () => draw());
  try {
    while (!either.aborted) {
      try {
        const figures = await observer.observe();
        draw = () =>
          screen.draw(frameOf(figures, { columns: stdout.columns, rows: stdout.rows }, style));
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        draw = () => screen.draw([style.red(message.slice(0, stdout.columns)), 'trying again …']);
      }
      draw();
      await context.pause(interval * 1000, either);
    }
  } finally {
    screen.close();
  }
}

const PLAIN = styleFor(false, {});
const BAR_WIDTH = 20;
const ABSENT = '-';
/** Rows of stores and of clients that are shown even on a small terminal. */
const ROWS_MIN = 2;
/** How many clients with waiting memory to name. */
const OWNERS_MAX = 3;

const STORE_COLUMNS = 'STORE | INDEX | RECORDS: | LOAD: | MEMORY: | BOUND: | HITS: | EVICTED/S:';

const CLIENT_COLUMNS =
  'CLIENT | PID: | READS/S: | WRITES/S: | SCANNED/S: | HITS: | READ P99: | WRITE P99: | ' +
  'CLAIMED: | WAITING: | TOLD:';

const NOTES = [
  'Clients tell their figures once a second. Percentiles: the slowest client, last 10 to 20 s.',
  '~ estimated from some parts of the index.',
];

/** The lines of one view, none longer than `columns`; as many as there are without `rows`. */
export function frameOf(
  figures: PoolFigures,
  size: { columns: number; rows?: number | undefined },
  style: Style,
): string[] {
  const cut = (line: string) => truncate(line, size.columns);
  const head = headLines(figures).map(cut);
  const room = (size.rows ?? Number.POSITIVE_INFINITY) - head.length - 5;
  const stores = figures.stores.map(storeRow);
  const clients = [...figures.clients].sort(busiestFirst).map(clientRow);
  const forStores = Math.max(ROWS_MIN, Math.min(stores.length, Math.floor(room / 2)));
  const forClients = Math.max(ROWS_MIN, room - Math.min(stores.length, forStores));
  const lines = [
    ...head.map((line, i) => (i === 0 ? style.bold(line) : line)),
    '',
    ...tableLines(STORE_COLUMNS, stores, forStores, 'no stores', cut, style),
    '',
    ...tableLines(CLIENT_COLUMNS, clients, forClients, 'no clients', cut, style),
    '',
    ...NOTES.map((note) => style.dim(cut(note))),
  ];
  return size.rows === undefined ? lines : lines.slice(0, size.rows);
}

function headLines(figures: PoolFigures): string[] {
  const { sum, clients, stores, at, createdAt, sizeMax, bytesUsed, clientsMax } = figures;
  const share = bytesUsed / sizeMax;
  const network = clients.filter((client) => client.network).length;
  const evicted = stores.reduce((all, { bound }) => all + (bound?.evictionsPerSecond ?? 0), 0);
  const silent = clients.filter(({ toldAgo }) => toldAgo === null).length;
  const notes = [
    network > 0 ? `, ${formatCount(network)} over the network` : '',
    silent > 0 ? `, ${formatCount(silent)} without figures` : '',
  ].join('');
  return [
    `${printable(figures.url)}  made ${formatDuration((at - createdAt) / 1000)} ago`,
    `Memory   ${barOf(share, BAR_WIDTH)} ${formatSize(bytesUsed)} of ${formatSize(sizeMax)}, ` +
      formatRatio(share),
    ...memoryLines(figures),
    `Clients  ${formatCount(clients.length)} of ${formatCount(clientsMax)}${notes}`,
    `Reads    ${rate(sum.reads)}  ${percentiles(sum.readLatency)}  hits ${hits(sum)}`,
    `Writes   ${rate(sum.writes)}  ${percentiles(sum.writeLatency)}`,
    `Scanned  ${rate(sum.scanned)}  evicted ${formatCount(evicted)}/s`,
  ];
}

/** The memory by state, the clients whose memory waits, and those that hold it back. */
function memoryLines({ memory, clients }: PoolFigures): string[] {
  const size = (of: 'live' | 'freeBlocks' | 'freeChunks' | 'claimed' | 'waiting' | 'overhead') =>
    formatSize(memory[of]);
  const parts =
    `live ${size('live')}, free ${size('freeBlocks')} in blocks and ${size('freeChunks')} in ` +
    `chunks, claimed ahead ${size('claimed')}, overhead ${size('overhead')}`;
  const lines = [`         ${parts}`];
  if (memory.waiting === 0) return lines;
  const owners = [...clients].sort((a, b) => b.waiting - a.waiting).slice(0, OWNERS_MAX);
  const whose = owners
    .filter(({ waiting }) => waiting > 0)
    .map(({ name, waiting }) => ` ${printable(name)} ${formatSize(waiting)}`);
  const holders = clients.filter(({ lags }) => lags).map(({ name }) => printable(name));
  const by = holders.length === 0 ? '' : `; held back by ${holders.join(', ')}`;
  const of = whose.length === 0 ? '' : `:${whose.join(',')}`;
  return [...lines, `Waiting  ${size('waiting')}${of}${by}`];
}

function rate(perSecond: number): string {
  return `${formatCount(perSecond)}/s`.padEnd(12);
}

function percentiles(of: Percentiles | null): string {
  const text = (name: string, value: number | undefined) =>
    `${name} ${value === undefined ? ABSENT : formatLatency(value)}`.padEnd(12);
  return `${text('p50', of?.p50)}${text('p90', of?.p90)}${text('p99', of?.p99)}`.trimEnd();
}

function hits({ hitRate }: Pick<Rates, 'hitRate'>): string {
  return hitRate === null ? ABSENT : formatRatio(hitRate);
}

function storeRow({ name, index, state, bytes, load, bound }: StoreFigures): string[] {
  const about = load?.isExact === false ? '~' : '';
  const records = bound?.records ?? load?.records;
  const isCounted = bound !== null;
  return [
    state === 'ready' ? name : `${name} (${state})`,
    index,
    records === undefined ? ABSENT : `${isCounted ? '' : about}${formatCount(records)}`,
    load === null ? ABSENT : `${about}${formatRatio(load.records / Math.max(1, load.slots))}`,
    formatSize(bytes),
    boundOf(bound),
    bound === null ? ABSENT : hits(bound),
    bound === null ? ABSENT : formatCount(bound.evictionsPerSecond),
  ];
}

function boundOf(bound: StoreFigures['bound']): string {
  if (bound === null) return ABSENT;
  const { maxRecords, maxBytes = 0, eviction } = bound;
  const most = maxRecords === undefined ? formatSize(maxBytes) : formatCount(maxRecords);
  return `${most} ${eviction}`;
}

function busiestFirst(a: ClientRates, b: ClientRates): number {
  return b.reads + b.writes + b.scanned - (a.reads + a.writes + a.scanned) || a.id - b.id;
}

function clientRow(client: ClientRates): string[] {
  const { name, pid, alive, lags, readLatency, writeLatency, toldAgo } = client;
  const state = !alive ? ' (gone)' : lags ? ' (holds back memory)' : '';
  const count = (of: 'reads' | 'writes' | 'scanned') =>
    toldAgo === null ? ABSENT : formatCount(client[of]);
  const latency = (of: Percentiles | null) => (of === null ? ABSENT : formatLatency(of.p99));
  return [
    `${name}${state}`,
    String(pid),
    count('reads'),
    count('writes'),
    count('scanned'),
    hits(client),
    latency(readLatency),
    latency(writeLatency),
    formatSize(client.claimed),
    formatSize(client.waiting),
    toldAgo === null ? ABSENT : `${formatDuration(toldAgo / 1000)} ago`,
  ];
}

function tableLines(
  columns: string,
  rows: string[][],
  most: number,
  nothing: string,
  cut: (line: string) => string,
  style: Style,
): string[] {
  if (rows.length === 0) return [nothing];
  const isCut = rows.length > most;
  const shown = isCut ? rows.slice(0, Math.max(1, most - 1)) : rows;
  const [head, ...lines] = table(columns, shown, PLAIN).split('\n').map(cut);
  const more = isCut ? [style.dim(`… ${formatCount(rows.length - shown.length)} more`)] : [];
  return [style.dim(head), ...lines, ...more];
}

function truncate(line: string, columns: number): string {
  const characters = [...line];
  return characters.length <= columns ? line : `${characters.slice(0, columns - 1).join('')}…`;
}

const ALTERNATE = '\x1b[?1049h';
const BACK = '\x1b[?1049l';
const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const HOME = '\x1b[H';
const ERASE_LINE_END = '\x1b[K';
const ERASE_BELOW = '\x1b[J';
/** Terminals that know these show everything in between at once; others ignore them. */
const BEGIN_TOGETHER = '\x1b[?2026h';
const END_TOGETHER = '\x1b[?2026l';

const CTRL_C = '\x03';

/**
 * The whole terminal, for a view that is redrawn. `close`, or the end of the process, restores what
 * was there.
 */
export class Screen {
  readonly #context: Pick<Context, 'stdin' | 'stdout'>;
  readonly #host: ExitHost;
  readonly #onKey: (key: string) => void;
  readonly #onResize: () => void;
  readonly #leave = () => this.#restore();
  readonly #hangUp = () => this.#host.exit(129);
  readonly #typed = (data: Uint8Array | string) => {
    for (const key of data.toString()) this.#onKey(key === CTRL_C ? 'q' : key);
  };
  #isOpen = true;

  /** `onKey` gets each typed character, and `q` for Ctrl-C. */
  constructor(
    context: Pick<Context, 'stdin' | 'stdout'>,
    host: ExitHost,
    onKey: (key: string) => void,
    onResize: () => void,
  ) {
    this.#context = context;
    this.#host = host;
    this.#onKey = onKey;
    this.#onResize = onResize;
    host.on('exit', this.#leave);
    host.on('SIGHUP', this.#hangUp);
    const { stdin, stdout } = context;
    stdin.setRawMode?.(true);
    stdin.on('data', this.#typed);
    stdin.resume();
    stdout.onResize(this.#onResize);
    stdout.writeNow(ALTERNATE + HIDE_CURSOR);
  }

  /** Overwrites line by line in one write, so the view does not flicker. */
  draw(lines: readonly string[]): void {
    if (!this.#isOpen) return;
    const text = lines.join(`${ERASE_LINE_END}\r\n`);
    const frame = `${HOME}${text}${ERASE_LINE_END}${ERASE_BELOW}`;
    this.#context.stdout.writeNow(BEGIN_TOGETHER + frame + END_TOGETHER);
  }

  #restore(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const { stdin, stdout } = this.#context;
    stdout.writeNow(SHOW_CURSOR + BACK);
    stdin.setRawMode?.(false);
  }

  close(): void {
    this.#restore();
    this.#host.off('exit', this.#leave);
    this.#host.off('SIGHUP', this.#hangUp);
    const { stdin, stdout } = this.#context;
    stdin.off('data', this.#typed);
    stdin.pause();
    stdout.offResize(this.#onResize);
  }
}
