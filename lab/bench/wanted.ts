import { LARGE_GET, LARGE_GET_MANY, LARGE_INSERT, LARGE_SCAN, LOAD, SCAN } from './plan.ts';
import { type PeerName, SCAN_RECORDS } from './protocol.ts';
import type { Wanted } from './results.ts';

/** CHIME has ratios of its own below. HStore is left out: its server executes every write. */
const BESIDE_RACE: readonly PeerName[] = ['sephash', 'shard', 'hopscotch'];

/** Exactly the ratios that the project promises. */
export function wantedRatios(): Wanted[] {
  const rows: Wanted[] = [];
  for (const kind of ['uniform', 'zipf']) {
    const get = `get ${kind}`;
    const set = `set ${kind}`;
    rows.push(
      atLeast(2, `get is faster than lmdb's get (${kind})`, get, 'stepwell', get, 'lmdb'),
      atLeast(6, `set is faster than lmdb's putSync (${kind})`, set, 'stepwell', set, 'lmdb'),
      {
        claim: `get takes the time of a Map's get (${kind})`,
        above: { workload: get, peer: 'map' },
        below: { workload: get, peer: 'stepwell' },
        bound: 1.6,
        direction: 'at most',
      },
      twoWriters(`${set}, 2 processes`, set, kind),
    );
  }
  const many = 'getMany(32) is faster than single gets (large)';
  rows.push(atLeast(1.5, many, LARGE_GET_MANY, 'stepwell', LARGE_GET, 'stepwell'));
  const trip = 'get is faster than a Redis round trip';
  rows.push(atLeast(20, trip, 'get uniform', 'stepwell', 'round trip uniform', 'redis'));
  return [...rows, ...BESIDE_RACE.flatMap(besideRace), ...ordered()];
}

/** CHIME beside lmdb, which also keeps its keys in order. */
function ordered(): Wanted[] {
  const get = 'get uniform';
  const set = 'set uniform';
  const scan = `scan of ${SCAN_RECORDS} records beside lmdb's getRange`;
  return [
    atLeast(1.5, "ordered get is faster than lmdb's get", get, 'chime', get, 'lmdb'),
    atLeast(1.3, scan, SCAN, 'chime', SCAN, 'lmdb'),
    atLeast(4, "random insert is faster than lmdb's putSync", LOAD, 'chime', LOAD, 'lmdb'),
    atLeast(6, "ordered set is faster than lmdb's putSync", set, 'chime', set, 'lmdb'),
    atLeast(
      1.7,
      'two writing processes beat one (chime)',
      `${set}, 2 processes`,
      'chime',
      set,
      'chime',
    ),
    ...orderedAtLarge(),
  ];
}

function orderedAtLarge(): Wanted[] {
  const [get, scan, insert] = [LARGE_GET, LARGE_SCAN, LARGE_INSERT];
  return [
    atLeast(1.5, "ordered get is faster than lmdb's get (large)", get, 'chime', get, 'lmdb'),
    atLeast(1.3, "scan beside lmdb's getRange (large)", scan, 'chime', scan, 'lmdb'),
    atLeast(4, "insert is faster than lmdb's putSync (large)", insert, 'chime', insert, 'lmdb'),
  ];
}

/** Other indexes should take at most 1.5 times as long as RACE. */
function besideRace(peer: PeerName): Wanted[] {
  const rows = ['get uniform', 'get zipf', 'set uniform', 'set zipf', 'getMany(32) uniform'];
  return rows.map((workload) => ({
    claim: `${workload}: ${peer}'s time beside RACE's`,
    above: { workload, peer: 'stepwell' },
    below: { workload, peer },
    bound: 1.5,
    direction: 'at most',
  }));
}

function twoWriters(two: string, one: string, kind: string): Wanted {
  const claim = `two writing processes beat one (${kind})`;
  return atLeast(1.7, claim, two, 'stepwell', one, 'stepwell');
}

function atLeast(
  bound: number,
  claim: string,
  fast: string,
  fastPeer: PeerName,
  slow: string,
  slowPeer: PeerName,
): Wanted {
  const above = { workload: fast, peer: fastPeer };
  const below = { workload: slow, peer: slowPeer };
  return { claim, above, below, bound, direction: 'at least' };
}
