import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { shapeOf } from '../../src/indexes/traversal/count.ts';
import { Prng } from '../../src/random/prng.ts';
import { percent, table } from '../support/text.ts';
import { loaded, PAPERS_SHAPE } from './loaded.ts';

/** CHIME section 5.4, Figures 19a and 19b: the maximum load factor. */
const PUBLISHED: Record<string, string> = { '64/2': '37.7 %', '64/8': '88.1 %', '64/16': '99.8 %' };
const SHAPES = [
  ...[2, 4, 8, 16].map((neighbourhood) => ({ span: 64, neighbourhood })),
  ...[8, 16, 32, 128, 256, 512].map((span) => ({ span, neighbourhood: 8 })),
];
const FRESH_LEAVES = 200;

interface LoadRow {
  span: number;
  neighbourhood: number;
  /** Load of a leaf when the first random key does not fit. */
  fresh: number;
  /** Mean load at which leaves split while a tree grows. */
  atSplit: number;
  /** Load of all leaves of the grown tree. */
  used: number;
  /** Bytes per record of a client's cache that holds all internal nodes. */
  cacheBytes: number;
  published: string | undefined;
}

/** Figure 3d: the maximum load factor of one table, by the entries that a search READs of it. */
interface TableRow {
  entries: number;
  load: number;
  published: string;
}

const TABLE_ENTRIES = 128;

export function measureTables(seed: number): TableRow[] {
  return [2, 4, 8, 16].map((entries) => ({
    entries,
    load: fillFresh(TABLE_ENTRIES, entries, Prng.fromSeed(seed)),
    published: entries === 8 ? 'about 90 %' : 'only drawn',
  }));
}

export function describeTables(rows: readonly TableRow[]): string {
  const cells = rows.map(({ entries, load, published }) => [
    String(entries),
    percent(load),
    published,
  ]);
  const head = ['entries READ', 'load at the first failure', 'published'];
  return `Hopscotch tables of ${TABLE_ENTRIES} entries (CHIME, Figure 3d)\n${table(head, cells, 0)}`;
}

export function measureLoad(records: number, seed: number): LoadRow[] {
  return SHAPES.map(({ span, neighbourhood }) => {
    const { index, pool } = loaded(records, { ...PAPERS_SHAPE, span, neighbourhood }, seed);
    const { splits, entriesAtSplit, cache } = (index as ChimeIndex).tree;
    const { records: found, slots } = pool.run(shapeOf(index));
    return {
      span,
      neighbourhood,
      fresh: fillFresh(span, neighbourhood, Prng.fromSeed(seed)),
      atSplit: entriesAtSplit / splits / span,
      used: found / slots,
      cacheBytes: cache.bytes / records,
      published: PUBLISHED[`${span}/${neighbourhood}`],
    };
  });
}

/** Load of leaves when a random key does not fit, even after hops. */
function fillFresh(span: number, neighbourhood: number, random: Prng): number {
  let entries = 0;
  for (let leaf = 0; leaf < FRESH_LEAVES; leaf++) {
    const homes: number[] = new Array(span).fill(EMPTY);
    while (placeIn(homes, random.below(span), neighbourhood)) entries++;
  }
  return entries / FRESH_LEAVES / span;
}

const EMPTY = -1;

/**
 * Hopscotch insertion (section 2.3) of a key with this home; `homes` has the home of each entry.
 */
function placeIn(homes: number[], home: number, neighbourhood: number): boolean {
  const span = homes.length;
  let away = 0;
  while (away < span && homes[(home + away) % span] !== EMPTY) away++;
  if (away === span) return false;
  while (away >= neighbourhood) {
    let back = Math.min(away, neighbourhood - 1);
    const canHop = () => {
      const from = (home + away - back) % span;
      return (home + away - homes[from] + span) % span < neighbourhood;
    };
    while (back > 0 && !canHop()) back--;
    if (back === 0) return false;
    homes[(home + away) % span] = homes[(home + away - back) % span];
    away -= back;
    homes[(home + away) % span] = EMPTY;
  }
  homes[(home + away) % span] = home;
  return true;
}

export function describeLoad(rows: readonly LoadRow[]): string {
  const head = [
    'span',
    'neighbourhood',
    'fresh leaf',
    'at split',
    'whole tree',
    'cache, bytes a record',
    'published',
  ];
  const cells = rows.map(({ span, neighbourhood, fresh, atSplit, used, cacheBytes, published }) => [
    ...[span, neighbourhood].map(String),
    ...[fresh, atSplit, used].map(percent),
    cacheBytes.toFixed(2),
    published ?? 'only drawn',
  ]);
  return `Load factors (CHIME, Figures 19a, 19b)\n${table(head, cells, 0)}`;
}
