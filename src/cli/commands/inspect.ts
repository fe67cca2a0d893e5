import type { PoolReport } from '../../store/reports.ts';
import { formatCount, formatSize } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import { printReport } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatRatio, plural } from '../sizes.ts';
import type { Style } from '../terminal/style.ts';
import { facts, table } from '../terminal/table.ts';

/** Show at most this many block sizes: those with the most free memory. */
const SIZES_MAX = 12;

const BLOCK_COLUMNS = 'STORE | BLOCK SIZE: | CHUNKS: | USED: | FREE: | LIVE:';

export const inspect = defineCommand({
  name: 'inspect',
  arguments: '<url>',
  summary: 'Show a pool: its memory, stores and clients',
  options: {
    json: { about: 'Print the report as JSON' },
  },
  examples: ['inspect shm:demo', 'inspect shm:demo --json | jq .stores'],
  async run(context, [url], { json }) {
    const library = await context.library();
    const report = await library.inspect(url, { client: 'stepwell inspect' });
    await printReport(context, report, json, describePool);
    return EXIT.ok;
  },
});

function describePool(report: PoolReport, style: Style): string {
  const heading = (text: string) => `\n${style.bold(text)}`;
  return [
    poolFacts(report, style),
    heading('Stores'),
    report.stores.length === 0 ? 'none' : storeTable(report, style),
    heading('Memory'),
    memoryTables(report, style),
    heading('Clients'),
    report.clients.length === 0 ? 'none' : clientTable(report, style),
  ].join('\n');
}

function poolFacts(report: PoolReport, style: Style): string {
  const { chunks, chunkSize } = report;
  const memory =
    `${formatSize(chunks.used * chunkSize)} in use of ${formatSize(report.sizeMax)} ` +
    `(${formatCount(chunks.used)} of ${formatCount(chunks.total)} chunks of ` +
    `${formatSize(chunkSize)}, ${formatCount(chunks.free)} free)`;
  const { fabric } = report;
  return facts(
    [
      ['Pool', report.url],
      ['Path', report.path === '' ? '(memory of its nodes)' : report.path],
      ['Created', report.createdAt],
      ['Memory', memory],
      ['Regions', `${formatCount(report.regions)} of ${formatSize(report.regionSize)}`],
      ['Huge pages', hugePages(report)],
      ...(fabric ? [['Fabric', fabricFacts(fabric)] as [string, string]] : []),
      ['Layout', `version ${report.layoutVersion}, epoch ${formatCount(report.epoch)}`],
    ],
    style,
  );
}

function hugePages({ hugePages, whyNoHugePages }: PoolReport): string {
  if (hugePages) return 'yes';
  return whyNoHugePages === undefined ? 'no' : `no (${whyNoHugePages})`;
}

function fabricFacts(fabric: NonNullable<PoolReport['fabric']>): string {
  const { name, version, transports, atomics, notes } = fabric;
  return [`${name} ${version}, ${transports}, atomics by the ${atomics}`, ...notes].join('; ');
}

function storeTable({ stores }: PoolReport, style: Style): string {
  return table(
    'NAME | INDEX | STATE | RECORDS: | LOAD: | INLINE: | SLOTS: | SUBTABLES: | DEPTH: | ' +
      'RECORD MEMORY: | INDEX MEMORY: | PARAMETERS',
    stores.map((store) => [
      store.name,
      store.index,
      store.state,
      formatCount(store.records),
      formatRatio(store.loadFactor),
      inlineShare(store),
      formatCount(store.slots),
      formatCount(store.subtables),
      String(store.globalDepth),
      formatSize(store.memory.records),
      formatSize(store.memory.subtables + store.memory.directory),
      Object.entries(store.parameters)
        .map(([name, value]) => `${name}=${value}`)
        .join(' '),
    ]),
    style,
  );
}

/** The share of records that the index keeps inline; '-' where that does not apply. */
function inlineShare({ inline, records }: PoolReport['stores'][number]): string {
  return inline === undefined || records === 0 ? '-' : formatRatio(inline / records);
}

/** Memory by state, then the blocks of each store by size. */
function memoryTables({ memory, chunkSize }: PoolReport, style: Style): string {
  const parts = ['live', 'claimed', 'waiting', 'freeBlocks', 'freeChunks', 'overhead'] as const;
  const sums = table(
    'LIVE: | CLAIMED AHEAD: | WAITING: | FREE BLOCKS: | FREE CHUNKS: | OVERHEAD:',
    [parts.map((part) => formatSize(memory[part]))],
    style,
  );
  const sizes = [...memory.blocks].sort((a, b) => b.free - a.free).slice(0, SIZES_MAX);
  const shown = memory.blocks.filter((size) => sizes.includes(size));
  const hidden = memory.blocks.length - shown.length;
  const rows = memory.stores.flatMap(({ store, used, free, live }) => [
    [
      nameOf(store),
      'all',
      '',
      ...[used, free].map(formatSize),
      live === null ? '?' : formatSize(live),
    ],
    ...shown
      .filter((size) => size.store === store)
      .map((size) => [
        nameOf(store),
        size.blockSize === chunkSize ? 'chunks' : formatSize(size.blockSize),
        formatCount(size.chunks),
        formatSize(size.used),
        formatSize(size.free),
        '',
      ]),
  ]);
  const blocks = table(BLOCK_COLUMNS, rows, style);
  const more = hidden === 0 ? [] : [style.dim(`… ${plural(hidden, 'block size')} more: --json`)];
  return [sums, '', ...(rows.length === 0 ? [] : [blocks, ...more])].join('\n').trimEnd();
}

function nameOf(store: string): string {
  return store === '' ? '(no store)' : store;
}

function stateOf({ self, alive, lags }: PoolReport['clients'][number]): string {
  if (self) return 'this command';
  return `${alive ? 'alive' : 'dead'}${lags ? ', holds back memory' : ''}`;
}

function clientTable({ clients }: PoolReport, style: Style): string {
  return table(
    'ID: | NAME | PID: | THREAD: | STATE | ATTACHED | EPOCH: | CLAIMED AHEAD: | WAITING:',
    clients.map((client) => [
      String(client.id),
      client.name,
      String(client.pid),
      String(client.thread),
      stateOf(client),
      client.attachedAt,
      formatCount(client.epoch),
      formatSize(client.claimed),
      formatSize(client.waiting),
    ]),
    style,
  );
}
