import { inRange, powerInRange } from '../../substrates/parameters.ts';

/**
 * Parameters of an HStore index, in the order in which the catalog keeps them:
 *
 *   pairs       pairs of a hash server and a skiplist server; a key's hash selects its pair
 *   buckets     of a pair's hash table at first, a power of two; a full one is chained
 *   rows        requests that can wait in a mailbox at once
 *   log         entries that a pair's log keeps, a power of two
 *   partitions  of a skiplist
 *   sync        1: a write returns when the skiplist server has applied it (HStore (sync))
 *   seed        of the key hash, so that a client cannot prepare keys that collide
 *   bucketsMax  of a pair's hash table when it has grown, a power of two
 */
export const HSTORE_PARAMETER_NAMES = [
  'pairs',
  'buckets',
  'rows',
  'log',
  'partitions',
  'sync',
  'seed',
  'bucketsMax',
] as const;

export type HStoreShape = Readonly<Record<(typeof HSTORE_PARAMETER_NAMES)[number], number>>;

const BUCKETS_MAX = 2 ** 24;
/** Bytes of a pool for each bucket: more buckets than needed, for a table that does not grow. */
const POOL_BYTES_PER_BUCKET = 1024;
const DEFAULT_BUCKETS_MAX = 2 ** 22;
/** A busy client uses 64 rows; each has 240 bytes in both mailboxes. */
const ROWS_MAX = 4096;
const DEFAULT_ROWS_MIN = 1024;
const POOL_BYTES_PER_ROW = 2 ** 16;

export function hstoreShape(
  given: Readonly<Record<string, number | undefined>>,
  poolBytes: number,
  seed: number,
): HStoreShape {
  const pairs = inRange('pairs', given.pairs ?? 1, 1, 16);
  const most = given.bucketsMax ?? BUCKETS_MAX;
  const wanted = given.buckets ?? Math.min(bucketsFor(poolBytes / pairs), most);
  const buckets = powerInRange('buckets', wanted, 1, BUCKETS_MAX);
  return {
    pairs,
    buckets,
    rows: inRange('rows', given.rows ?? rowsFor(poolBytes), 1, ROWS_MAX),
    log: powerInRange('log', given.log ?? 4096, 2, 2 ** 20),
    partitions: inRange('partitions', given.partitions ?? 4, 1, 64),
    sync: inRange('sync', given.sync ?? 0, 0, 1),
    seed,
    bucketsMax: powerInRange('bucketsMax', given.bucketsMax ?? buckets, buckets, BUCKETS_MAX),
  };
}

function rowsFor(poolBytes: number): number {
  const wanted = Math.floor(poolBytes / POOL_BYTES_PER_ROW);
  return Math.min(ROWS_MAX, Math.max(DEFAULT_ROWS_MIN, wanted));
}

function bucketsFor(poolBytes: number): number {
  const wanted = Math.floor(Math.log2(Math.max(1, poolBytes / POOL_BYTES_PER_BUCKET)));
  return Math.min(DEFAULT_BUCKETS_MAX, 2 ** wanted);
}
