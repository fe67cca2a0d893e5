import type { ClientRates, PoolFigures } from '../../store/watching/figures.ts';
import { type Column, el, svg, table } from './dom.ts';
import { count, share, size } from './format.ts';

const PARTS = [
  ['live', 'live'],
  ['claimed', 'claimed ahead'],
  ['waiting', 'waiting for an epoch'],
  ['freeBlocks', 'free blocks'],
  ['freeChunks', 'free chunks'],
  ['overhead', 'overhead'],
] as const;

const COLUMNS: readonly Column[] = [
  { head: 'Store' },
  { head: 'Block size', kind: 'number' },
  { head: 'Chunks', kind: 'number' },
  { head: 'Used', kind: 'number' },
  { head: 'Free', kind: 'number' },
  { head: 'Live', kind: 'number' },
];

const WIDTH = 1000;
const HEIGHT = 14;
/** How many block sizes to show: those with the most free memory. */
const SIZES_MAX = 12;

/** Where the memory of the pool is: a bar of all of it, then blocks by store and size. */
export function memoryPanel({ memory, clients }: PoolFigures): Node[] {
  const { total, stores, blocks } = memory;
  const largest = [...blocks].sort((a, b) => b.free - a.free).slice(0, SIZES_MAX);
  const hidden = blocks.length - largest.length;
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
    table(COLUMNS, rows, 'No store has memory.'),
    ...(hidden === 0
      ? []
      : [
          el(
            'p',
            { class: 'notes' },
            `${count(hidden)} block sizes with less free memory are not shown.`,
          ),
        ]),
  ];
}

function bar(memory: PoolFigures['memory']): SVGElement {
  let x = 0;
  const rects = PARTS.map(([part]) => {
    const width = (WIDTH * memory[part]) / memory.total;
    const rect = svg('rect', { class: part, x, y: 0, width, height: HEIGHT });
    x += width;
    return rect;
  });
  const attributes = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none' };
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
