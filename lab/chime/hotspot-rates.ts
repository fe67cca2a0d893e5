import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { Prng } from '../../src/random/prng.ts';
import { BYTES_READ } from '../../src/verbs/traffic.ts';
import { figure, percent, table } from '../support/text.ts';
import { ZipfRanks } from '../workloads/index.ts';
import { keyOf, loaded } from './loaded.ts';

/**
 * CHIME Figure 19c: a buffer of 30 MB of 16-byte entries for 60 million items is hit by 81.0 % of
 * the searches (Zipf 0.99), and nearly all of these hits are right.
 */
const PUBLISHED_SHARE = 0.0328;
const SHARES = [0.005, PUBLISHED_SHARE, 0.1, 0.5];

interface HotspotRow {
  /** Entries of the buffer by records. */
  share: number;
  entries: number;
  known: number;
  right: number;
  tripsPerSearch: number;
  bytesPerSearch: number;
}

export function measureHotspots(records: number, seed: number): HotspotRow[] {
  return SHARES.map((share) => {
    const hotspots = Math.round(share * records);
    const { pool, index } = loaded(records, {}, seed);
    index.configure?.({ hotspots });
    const { speculation } = (index as ChimeIndex).tree.hotspots;
    const ranks = new ZipfRanks(records, Prng.fromSeed(seed));
    const request = index.newRequest();
    const search = () => {
      pool.enter();
      request.setKey(keyOf(ranks.next()), index.records.seed);
      pool.run(index.search(request));
      pool.exit();
    };
    for (let i = 0; i < 2 * records; i++) search();
    const { asked, known, right } = { ...speculation };
    const { rows } = pool.fabric.traffic;
    const [before, bytesBefore] = [rows[0], rows[BYTES_READ]];
    for (let i = 0; i < records; i++) search();
    return {
      share,
      entries: hotspots,
      known: (speculation.known - known) / (speculation.asked - asked),
      right: (speculation.right - right) / (speculation.known - known),
      tripsPerSearch: (rows[0] - before) / records,
      bytesPerSearch: (rows[BYTES_READ] - bytesBefore) / records,
    };
  });
}

export function describeHotspots(rows: readonly HotspotRow[]): string {
  const cells = rows.map(({ share, entries, known, right, tripsPerSearch, bytesPerSearch }) => [
    percent(share),
    figure(entries),
    percent(known),
    percent(right),
    tripsPerSearch.toFixed(2),
    figure(bytesPerSearch),
    share === PUBLISHED_SHARE ? '81.0 %, ~100 %' : 'only drawn',
  ]);
  const head = [
    'keys in the buffer',
    'entries',
    'hits',
    'right',
    'round trips',
    'bytes READ',
    'published',
  ];
  return `Hotspots, Zipf 0.99 (CHIME, Figure 19c)\n${table(head, cells, 0)}`;
}
