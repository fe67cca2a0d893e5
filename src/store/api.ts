import type { ConnectionOptions } from 'node:tls';
import type { CloseListener } from './closing.ts';
import type { CopiedRecord, Decide, StatesRead } from './internal-calls.ts';
import type {
  Decoded,
  Encoding,
  Key,
  Shared,
  Value,
  ValueCodec,
  ValueFormat,
  Written,
} from './key-value.ts';
import type { AsyncScan, RangeBounds, RangeOptions, Scan, ScanOptions } from './ordered-api.ts';

/** The public types of a store. Synchronous and asynchronous stores share every name. */

export type { Decoded, Encoding, Key, Shared, Value, ValueCodec, ValueFormat, Written };

/**
 * A record with its version (32 bits, unsigned), which every write changes. SepHash counts a
 * segment's writes; elsewhere updates count up, and an insertion begins at a random version: after
 * a deletion it repeats one that a client remembers with a chance of one in 2^32.
 */
export interface Entry<V, K extends Key = Key> {
  /** A string when the key's bytes are well-formed UTF-8 (unless `keys: 'bytes'`), else bytes. */
  key: K;
  value: V;
  version: number;
  /** Write options for the same expiry, if any. Only `scanPage` sets it. */
  expires?: Pick<ExpiryOptions, 'ttlMs' | 'sliding' | 'expiresAt'>;
}

/**
 * When a record expires. From then on it is absent to every call of every client, by that client's
 * clock. If the clocks of machines differ, a record expires earlier or later by as much.
 */
export interface ExpiryOptions {
  /** Milliseconds from now on; Infinity for never. Default: that of `open`, else never. */
  ttlMs?: number;
  /** Milliseconds since 1970, instead of `ttlMs`; a time that has passed is allowed. */
  expiresAt?: number;
  /**
   * Whether each read restarts `ttlMs`, up to a 64th of it late. Default: that of `open`, else
   * false.
   */
  sliding?: boolean;
}

/** When a write stores its value: always, or only if the key is absent or present. */
export type WriteCondition = 'always' | 'absent' | 'present';

/** Options of `write`. */
export interface WriteOptions extends ExpiryOptions {
  /** Default `always`. */
  when?: WriteCondition;
  /** Whether to return the value that the write found. Default false. */
  previous?: boolean;
  /**
   * Whether the new record expires when the replaced one would have. Then `ttlMs` and the like
   * apply only if the key is absent. Default false.
   */
  keepTtl?: boolean;
}

/** Options of `compareAndSet`. */
export interface ReplaceOptions extends ExpiryOptions {
  /** Whether the new record expires when the replaced one would have. Default false. */
  keepTtl?: boolean;
}

/** A record's properties, without its value. */
export interface RecordMetadata {
  /** As in `Entry`. */
  version: number;
  /** Milliseconds since 1970 when it expires; Infinity for never. */
  expiresAt: number;
}

/** The outcome of `write`. */
export interface WriteResult<V> {
  /** Whether the condition held and the value was stored. */
  written: boolean;
  /** The value that the operation found, if the key was present and `previous` was asked for. */
  previous: V | undefined;
}

/**
 * Options of `incrementWithin`. The times apply to a new counter. The bounds are the same kind of
 * number as the increment: numbers or bigints.
 */
export interface BoundedOptions<N extends number | bigint> extends ExpiryOptions {
  /** The lowest value that the counter may have. */
  min?: N;
  /** The highest value that it may have. */
  max?: N;
}

/** The outcome of `incrementWithin`. */
export interface BoundedIncrement<N extends number | bigint> {
  /** Whether the increment was added. */
  applied: boolean;
  /** The counter afterwards. */
  value: N;
  /** Milliseconds until the counter restarts; Infinity for never. */
  ttlMs: number;
}

/** One page of a walk. `cursor` is 0 at the end of the walk; else pass it for the next page. */
export interface Page<V, K extends Key = Key> {
  cursor: number;
  entries: Entry<V, K>[];
}

/** One page of a walk over keys. */
export interface KeyPage {
  cursor: number;
  keys: Uint8Array[];
}

/** Parameters of the index `race`, lock-free extendible hashing. */
export interface RaceParameters {
  /** Slots in a bucket (the paper's K), 1..64 (7, which makes a bucket one 64-byte line). */
  associativity?: number;
  /** Bucket groups in a subtable, 2..65536 (64); each has two main buckets and an overflow one. */
  groups?: number;
  /** Suffix bits of the directory at creation (1). */
  initialDepth?: number;
  /** Suffix bits for which directory space is reserved, at most 24 (by the pool's size). */
  maxDepth?: number;
}

/** Parameters of the index `shard`, iceberg hashing resized lazily. */
export interface ShardParameters {
  /**
   * Tables over which the keys are spread, up to 1024, each on one memory node. Default: 1 in a
   * pool on one node, else 64.
   */
  partitions?: number;
  /**
   * Buckets of each level of a partition before the first resize, a power of two up to 2^20 (64; of
   * several partitions 8).
   */
  buckets?: number;
  /** Entries of a bucket of level 1, 1..128 (64), and of level 2, 1..32 (8). */
  level1?: number;
  level2?: number;
  /** Load in per cent of the entries of levels 1 and 2 at which the table doubles, 1..100 (80). */
  threshold?: number;
  /** Alpha of the adaptive frequency synchronisation in ten-thousandths (1000, the paper's 0.1). */
  alpha?: number;
  /** How often the table may double. Default: as often as entries can express. */
  resizes?: number;
}

/** Parameters of the index `sephash`, write-optimised two-level hashing. */
export interface SepHashParameters {
  /** Bytes of a CurSegment's entries, a power of two up to 2048 (1024; the paper's
   * smallest are 128). */
  segmentBytes?: number;
  /** CurSegments that a MainSegment holds before it is split, up to 64 (64; the
   * paper's smallest are 8). */
  ratio?: number;
  /** Entries that a write reads to find the first empty one (8); 0 reads all of them. */
  window?: number;
  /** Suffix bits of the directory at creation (1). */
  initialDepth?: number;
  /** Suffix bits for which directory space is reserved, at most 24 (by the pool's size). */
  maxDepth?: number;
}

/** Parameters of the index `chime`, an ordered tree. */
export interface ChimeParameters {
  /** Entries of a leaf, 2..1024 (64). */
  span?: number;
  /** How many entries, from its home on, may hold a key, 2..16 (8). */
  neighbourhood?: number;
  /**
   * The longest key and value together, each padded to 8 bytes, that the leaf itself holds: 0..240
   * bytes (48; with access words 64, because a value then has 16 bytes of times).
   */
  inlineBytes?: number;
  /** Most children of an internal node, 2..1024 (64). */
  fanout?: number;
  /** KiB of internal nodes that each client caches, up to 2^24 (65536). */
  cacheKiB?: number;
  /** Whether entries have 8 bytes more for eviction; always of a store with a bound. */
  accessWords?: boolean;
}

/** The stand-alone hash table of hopscotch leaves. */
export interface HopscotchParameters {
  /** Entries of a segment, 2..1024 (64). */
  span?: number;
  /** How many entries, from its home on, may hold a key, 2..16 (8). */
  neighbourhood?: number;
  /**
   * The longest key and value together, each padded to 8 bytes, that the segment itself holds:
   * 0..240 bytes (48; with access words 64, because a value then has 16 bytes of times).
   */
  inlineBytes?: number;
  /** Suffix bits of the directory at creation (1). */
  initialDepth?: number;
  /** Suffix bits for which directory space is reserved, at most 24 (by the pool's size). */
  maxDepth?: number;
  /** Whether entries have 8 bytes more for eviction; always of a store with a bound. */
  accessWords?: boolean;
}

/** Parameters of the index `hstore`, hash table and skiplist servers. */
export interface HStoreParameters {
  /** Pairs of a hash server and a skiplist server, 1..16 (1). */
  pairs?: number;
  /** Buckets of a pair's hash table, a power of two; by default one for each KiB of the pool. */
  buckets?: number;
  /**
   * Buckets to which the table grows, a power of two; by default `buckets`: it does not grow. While
   * a table doubles, writes wait, for a second or more where there are hundreds of thousands of
   * records.
   */
  bucketsMax?: number;
  /**
   * Most requests that wait at the same time, at least one a client: 1..4096 (1024, in large pools
   * more).
   */
  rows?: number;
  /** Entries of a pair's log, a power of two up to 2^20 (4096). */
  log?: number;
  /** Partitions of a skiplist, 1..64 (4). */
  partitions?: number;
  /** Whether a write returns only when the skiplist server has applied it, too (false). */
  sync?: boolean;
}

/** The parameters of each index. Those left out have their defaults. */
export interface ParametersOf {
  race: RaceParameters;
  sephash: SepHashParameters;
  shard: ShardParameters;
  chime: ChimeParameters;
  hstore: HStoreParameters;
  hopscotch: HopscotchParameters;
}

/** Name of an index; docs/choosing-an-index.md compares them. */
export type IndexName = keyof ParametersOf;

/** An index with parameters of its own, such as `{ kind: 'shard', partitions: 64 }`. */
export type IndexChoice = { [K in IndexName]: { kind: K } & ParametersOf[K] }[IndexName];

/**
 * A number of bytes, or text: `'512m'`, `'4g'` and `'4GiB'` count in powers of 1024, `'4GB'` in
 * powers of 1000. Text that is no size raises SW_INVALID_ARGUMENT.
 */
export type Size = number | string;

/** Sizes of a pool that is created; a pool that exists keeps its own. */
export interface PoolOptions {
  /** The most memory that the pool may take. It takes memory from the system as it fills. */
  size?: Size;
  /** By how much the pool grows, at most 2 GiB; by default equal steps of at most 1 GiB. */
  regionSize?: Size;
  /** Rows of the client table: how many clients can be attached at once. */
  maxClients?: number;
}

/** Which records a store with a bound evicts when it is full; see `OpenOptions`. */
export type Eviction = 'none' | 'lru' | 'lfu' | 'adaptive';

/** The bounds of a near cache, at least one of them, and whether its objects are frozen. */
export interface NearCacheOptions {
  /** The most keys that it holds, up to 2^24. */
  maxEntries?: number;
  /** The most memory that it takes, by estimate: twice the JSON of an object. */
  maxBytes?: Size;
  /** Whether the objects that are kept are frozen, all the way down. Default true. */
  freeze?: boolean;
}

/** The near cache of a handle. */
export interface NearCacheStats {
  entries: number;
  /** Estimated memory of the entries. */
  bytes: number;
  /** Keys that were read through the cache. */
  reads: number;
  /** Reads that it answered. */
  hits: number;
}

/** Options of `open` and `create`. */
export interface OpenOptions extends PoolOptions {
  /** How long the records that this handle writes live, in milliseconds. Default: for ever. */
  ttlMs?: number;
  /** Whether each read restarts `ttlMs`. Default false. */
  sliding?: boolean;
  /**
   * Returns the time of day in milliseconds since 1970, by which records expire: for tests. All
   * stores of the pool that this thread has open use it. If it returns anything else, that call or
   * the next one raises SW_INVALID_ARGUMENT. Default `Date.now`.
   */
  clock?: () => number;
  /**
   * Returns random numbers of [0, 1) for evictions: for tests. All stores of the pool that this
   * thread has open use it. If it returns anything else, `Math.random` decides instead, and the
   * write that evicts raises SW_INVALID_ARGUMENT after it has stored its record. Default
   * `Math.random`.
   */
  chance?: () => number;
  /**
   * The most records that a new store holds. When it is full, `eviction` chooses which records make
   * room for others. Expired records count until they are removed. Operations in flight may exceed
   * the bound by what they add. An existing store keeps its own bound: asking for another one
   * raises SW_STORE_MISMATCH. Default: as many as the pool has room for.
   */
  maxRecords?: number;
  /**
   * Instead of `maxRecords`: how much the memory blocks of a new store's records take at most. A
   * record that alone takes more is refused (SW_INVALID_VALUE).
   */
  maxBytes?: Size;
  /**
   * Which record a full store with `maxRecords` or `maxBytes` evicts from a sample: the least
   * recently used one (`lru`) or the least frequently used one (`lfu`). `adaptive` learns which of
   * the two loses fewer keys that come back. With `none`, writing another key raises SW_POOL_FULL,
   * and so does a longer value with `maxBytes`. Default `lru`.
   */
  eviction?: Eviction;
  /**
   * Name of the store inside the pool, at most 48 bytes. Default: the store of the `handle`; for a
   * URL `default`.
   */
  store?: string;
  /**
   * Whether to create the pool and the store if they do not exist. Default true, but false for the
   * store of a `handle`, which did exist.
   */
  create?: boolean;
  /**
   * The index of a store that is created (default `race`), by name or with parameters. An existing
   * store keeps its own: asking for another one raises SW_STORE_MISMATCH.
   */
  index?: IndexName | IndexChoice;
  /** How keys come back from iteration. Default `auto`: a string when well-formed UTF-8. */
  keys?: Encoding;
  /**
   * How values come back. Default `auto`, which TypeScript takes for texts: see `TextOptions`. For
   * values of any type see `CodecOptions`.
   */
  values?: Encoding;
  /**
   * For `tcp:` and `tls:`: operations of this client that are in flight on one key share verbs,
   * also those of `getMany`: one READ answers all searches, and one CAS does all writes. It pays
   * with many calls on few hot keys. SW_UNSUPPORTED with other indexes than SHARD, and for a pool
   * in memory, where no two calls are in flight at once. CHIME and hopscotch always combine writes.
   * Default false.
   */
  delegation?: boolean;
  /**
   * Size of the hotspot buffer, in which this client remembers where its most-read keys are: 17
   * bytes a key, at most 2^24 keys, 0 for none. A read of such a key asks for its entry alone. That
   * takes fewer bytes, or one more round trip if the key has moved. Default: 65536 for `tcp:` and
   * `tls:`, 0 for pools in memory. CHIME and hopscotch have it; other indexes raise SW_UNSUPPORTED.
   * Handles of a thread that share the store share the buffer.
   */
  hotspots?: number;
  /**
   * How many values this handle keeps decoded; `NearCacheOptions` has other bounds. `get`,
   * `getEntry`, `getMany` and `has` use such a value if its record is still the key's. Each call
   * checks that in the pool, so a value is never stale. The cache keeps text, numbers and, with
   * `values: 'json'`, objects, from the second read of a key on, if the key is a string. Text that
   * this handle writes replaces the key's kept text, except in `hstore` stores. Objects
   * are frozen, because all callers of this handle share them. A namespace has a near cache of its
   * own. SW_UNSUPPORTED with SepHash and with `delegation`. Default: none.
   */
  nearCache?: number | NearCacheOptions;
  /**
   * How long a call waits, in milliseconds, while the same client holds a lock that it needs. Then
   * it raises SW_CONTENTION, which names that client, and has changed nothing. CHIME and hopscotch
   * have locks. Handles of a thread that share the store share this setting. Default 1000.
   */
  lockTimeoutMs?: number;
  /**
   * Whether to raise SW_READ_ONLY for calls that would write, and create nothing. A read of a
   * sliding record does not restart its time. The client still has a row in the pool, which says
   * what it may be reading. For `tcp:` and `tls:` the memory nodes enforce this if `secret` is
   * their secret for reading. Default false.
   */
  readOnly?: boolean;
  /** A name for this client in `stepwell inspect`, at most 32 bytes. Default: the script's name. */
  client?: string;
  /**
   * For `tcp:` and `tls:`: the secret that the memory nodes were started with. Default:
   * STEPWELL_SECRET in the environment, or the contents of the file that STEPWELL_SECRET_FILE
   * names.
   */
  secret?: string | Uint8Array;
  /** For `tls:`: options of node:tls, such as `ca`. */
  tls?: ConnectionOptions;
  /** Makes `open` raise SW_ABORTED; has no effect on the open store. */
  signal?: AbortSignal;
  /** For `tcp:` and `tls:`: how long to wait for a memory node, in milliseconds (5000). */
  timeoutMs?: number;
}

/** Verbs that a client has posted, and bytes that they carried. */
export interface Traffic {
  /** Doorbell batches. */
  roundTrips: number;
  reads: number;
  writes: number;
  compareAndSwaps: number;
  fetchAndAdds: number;
  bytesRead: number;
  bytesWritten: number;
}

/** The result of `counters`: figures of this client. */
export interface ClientCounters {
  /**
   * The client's verbs and bytes. On this machine all stores of a pool that this thread has open
   * share one client, counted since the first was opened. Over a network, this store's client since
   * it last connected.
   */
  traffic: Traffic;
  /** How often an operation of this client had to begin again or wait, by reason. */
  retries: Record<string, number>;
  /**
   * How this client grew the index: for RACE splits and doublings, for SHARD resizes and buckets
   * moved, for CHIME splits, hops, nodes rebuilt and merges, for HStore buckets chained.
   */
  resizes: Record<string, number>;
}

/** The result of `stats`: counters of this client, and the whole store's size and memory. */
export interface StoreStats extends ClientCounters {
  /** Records and slots of the whole store, counted by a walk. */
  records: number;
  slots: number;
  loadFactor: number;
  /**
   * CHIME and hopscotch only: `inline` records stand in the index itself. For the `indirect` ones,
   * which are longer (`inlineBytes`), it stores an address.
   */
  inline?: number;
  indirect?: number;
  globalDepth: number;
  subtables: number;
  /** Bytes of the pool's chunks that this store holds, by kind. */
  memory: { records: number; subtables: number; directory: number };
  /** Only for a store with `maxRecords` or `maxBytes`. */
  bound?: BoundStats;
  /** Only for a handle with `nearCache`. */
  near?: NearCacheStats;
}

/**
 * The contents and history of a bounded store, over all its clients since it was made. Other
 * clients' figures are as last published; hits and misses are up to a second late.
 */
export interface BoundStats {
  maxRecords?: number;
  maxBytes?: number;
  eviction: Eviction;
  /** As the clients count them; see docs/protocols/eviction.md for what a client's death does. */
  records: number;
  /** Bytes of the memory blocks of those. */
  bytes: number;
  /** Records that were evicted, without those that had expired. */
  evictions: number;
  /** Keys that reads found, and did not find. */
  hits: number;
  misses: number;
  /** With `adaptive`: the share of evictions that `lru` decides for this client. */
  lruWeight?: number;
}

/** Defaults of a namespace. Those left out are the store's. */
export interface NamespaceOptions {
  /** How long the records that this namespace writes live, in milliseconds. */
  ttlMs?: number;
  /** Whether each read restarts `ttlMs`. */
  sliding?: boolean;
  /** As of `open`; 0 for none. */
  nearCache?: number | NearCacheOptions;
}

interface Named {
  readonly name: string;
  readonly url: string;
}

/** Map-like and synchronous: each call finishes before it returns (shared memory). */
export interface Store<V = Value, K extends Key = Key, W = Written<V>> extends Named {
  /** The value; undefined when the key is absent. */
  get(key: Key): V | undefined;
  /** The value with its version, for compareAndSet. */
  getEntry(key: Key): Entry<V> | undefined;
  /** Whether the key is present. */
  has(key: Key): boolean;
  /**
   * Stores the value whether or not the key exists.
   *
   * @throws StepwellError SW_POOL_FULL, SW_INDEX_FULL, SW_INVALID_KEY or SW_INVALID_VALUE, as every
   *   call that stores; with SW_CLOSED and SW_CONTENTION, as every call.
   */
  set(key: Key, value: W, options?: ExpiryOptions): void;
  /** Stores the value if the key is absent. */
  insert(key: Key, value: W, options?: ExpiryOptions): boolean;
  /** Stores the value if the key is present. */
  update(key: Key, value: W, options?: ExpiryOptions): boolean;
  /** The general form of set, insert and update, which can also return what it replaced. */
  write(key: Key, value: W, options?: WriteOptions): WriteResult<V>;
  /**
   * Changes when the record expires; without options to that of `open`. False if the key is absent.
   * `expire`, `ttl` and `metadata` do not count as reads of a sliding record.
   */
  expire(key: Key, options?: ExpiryOptions): boolean;
  /** Milliseconds until the record expires: Infinity for never, undefined if the key is absent. */
  ttl(key: Key): number | undefined;
  /** Version and expiry of the record, without its value; undefined if the key is absent. */
  metadata(key: Key): RecordMetadata | undefined;
  /** Removes the key; false if it was absent. */
  delete(key: Key): boolean;
  /** Removes the key and returns its value. */
  take(key: Key): V | undefined;
  /** Stores the value if the record still has `version`; returns the new version or undefined. */
  compareAndSet(key: Key, version: number, value: W, options?: ReplaceOptions): number | undefined;
  /** Removes the record if it still has `version`; false if it has another one or is absent. */
  compareAndDelete(key: Key, version: number): boolean;
  /**
   * Adds to a decimal integer (absent counts as 0) and returns the sum. 64-bit with a bigint. The
   * options are for a counter that begins: one that is there expires when it would have.
   *
   * @throws StepwellError SW_NOT_INTEGER when the value is none, SW_OVERFLOW when the sum would
   *   leave the range.
   */
  increment(key: Key, by?: number, options?: ExpiryOptions): number;
  increment(key: Key, by: bigint, options?: ExpiryOptions): bigint;
  /**
   * Stores the value and returns the one that it replaced, undefined if the key was absent.
   * `keepTtl` and the times are those of `write`.
   */
  swap(key: Key, value: W, options?: Omit<WriteOptions, 'when' | 'previous'>): V | undefined;
  /**
   * Puts text or bytes behind the value; an absent key is empty. Text behind text stays text, else
   * the value is bytes. Returns its bytes. The options are for a key that is absent.
   *
   * @throws StepwellError SW_UNSUPPORTED in a store with a format or codec, SW_INVALID_VALUE when
   *   the value would be too long.
   */
  append(key: Key, value: Value, options?: ExpiryOptions): number;
  /**
   * As `increment`, unless the sum would be below `min` or above `max`: then the counter stays as
   * it is, and an absent one absent.
   *
   * @throws StepwellError SW_INVALID_ARGUMENT for a `min` above `max`, and for bounds of another
   *   kind of number than `by`; SW_NOT_INTEGER, SW_OVERFLOW.
   */
  incrementWithin(key: Key, by: number, options: BoundedOptions<number>): BoundedIncrement<number>;
  incrementWithin(key: Key, by: bigint, options: BoundedOptions<bigint>): BoundedIncrement<bigint>;
  /**
   * Changes the state of a helper; see calls/states.ts.
   *
   * @internal
   */
  changeState<T>(name: string, decide: Decide<T>): T;
  /** @internal */
  readStates(from: string, to: string, limit: number): StatesRead;
  /** @internal */
  copyPage(cursor: number, count: number): { cursor: number; records: CopiedRecord[] };
  /** @internal */
  putCopies(copies: readonly CopiedRecord[]): void;
  /**
   * The values of the keys, in their order. With `maxBytes` only as many leading values as fit in
   * that many bytes, but at least one.
   */
  getMany(keys: readonly Key[], options?: { maxBytes?: number }): (V | undefined)[];
  /** Stores the records one by one: when it fails, those before it stay. */
  setMany(entries: Iterable<readonly [Key, W]>, options?: ExpiryOptions): void;
  /** Removes the keys; returns how many were present. */
  deleteMany(keys: readonly Key[]): number;
  /**
   * Zero-copy read: calls `use` with the value's bytes in the pool itself and returns its result.
   * Rule: the bytes are valid, and must not be changed, only until `use` returns.
   */
  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined;
  /** All records, or those of a range as `scan` hands them. */
  entries(): IterableIterator<[K, V]>;
  entries(range: ScanOptions): Scan<[K, V]>;
  /** All keys, or those of a range; no values are read. */
  keys(): IterableIterator<K>;
  keys(range: ScanOptions): Scan<K>;
  /** All values, or those of a range. */
  values(): IterableIterator<V>;
  values(range: ScanOptions): Scan<V>;
  [Symbol.iterator](): IterableIterator<[K, V]>;
  /**
   * Calls `use` with each record, as a Map does; it may write to the store.
   *
   * @throws StepwellError SW_INVALID_ARGUMENT for what is no function.
   */
  forEach(use: (value: V, key: K, store: this) => void): void;
  /**
   * The records of a range in the order of their keys' bytes; all when it is left out. Needs an
   * ordered index, except with `prefix`: other indexes find the keys of a prefix by reading the
   * whole store, in no particular order, and without `reverse`. The same holds for `entries`,
   * `keys`, `values`, `count` and `clear` with a range.
   *
   * @throws StepwellError SW_UNSUPPORTED on an index without order, SW_INVALID_ARGUMENT for what is
   *   no range, SW_INVALID_KEY.
   */
  scan(range?: ScanOptions): Scan<[K, V]>;
  /**
   * Stateless walk: begin with cursor 0, stop when the returned cursor is 0. A key present during
   * the whole walk is returned at least once, also while the store resizes. `count` is a hint.
   */
  scanPage(cursor: number, count?: number): Page<V, K>;
  /**
   * Like `scanPage`, but only keys, as bytes: no values are read. On an ordered tree (`chime`) the
   * keys come in order, and a `prefix` limits the walk to keys that begin with it. On other indexes
   * the prefix is only a hint, and other keys come too.
   */
  scanKeys(cursor: number, count?: number, options?: { prefix?: Key }): KeyPage;
  /**
   * The record with the lowest key of a range, as `scan` hands it: [key, value]. Undefined if the
   * range is empty. Needs an ordered index, also with `prefix` (SW_UNSUPPORTED).
   */
  first(bounds?: RangeBounds): [K, V] | undefined;
  /** As `first`, the record with the highest key. */
  last(bounds?: RangeBounds): [K, V] | undefined;
  /**
   * Fills an empty store with records in strictly ascending order of their keys' bytes, much faster
   * than one by one; needs an ordered tree (index `chime`; else SW_UNSUPPORTED). No client sees
   * anything before all of it is there: when a key does not ascend or the store is not empty
   * (SW_INVALID_ARGUMENT), the pool is full (SW_POOL_FULL) or `entries` throws, nothing is stored.
   * Returns how many records there were. `entries` must not use this store. All of it is one
   * operation: memory that clients free in the pool meanwhile is used again only afterwards.
   */
  loadSorted(entries: Iterable<readonly [Key, W]>): number;
  /**
   * How many keys a range has: of keys that come and go meanwhile, any may be counted. Without a
   * range it needs an ordered index, as `scan`; `size` does not.
   */
  count(bounds?: RangeBounds): number;
  /**
   * Exact when no client writes meanwhile; otherwise off by at most the writes that ran meanwhile.
   */
  readonly size: number;
  /**
   * Removes the records of the store, or of a range, and returns how many it removed. Each key is
   * removed by itself, as `delete` does, 256 of them at a time: other clients go on reading and
   * writing meanwhile, and an error leaves the rest. Every key that is present from the call on is
   * removed, whatever is written to it before its turn; a value that is written after that stays. A
   * key that is inserted meanwhile may be removed or stay. Expired records do not count.
   *
   * A store of HStore on this machine, without a bound, removes up to seven records in one change
   * when the call names no range. If the client dies, all of them are removed or none. A step of a
   * scan sees all or none, too; other reads may see some of them removed.
   *
   * @throws StepwellError SW_READ_ONLY, SW_UNSUPPORTED as `scan`, SW_POOL_FULL as `delete`.
   */
  clear(range?: RangeOptions): number;
  /** Counters of this client, and what a walk of the store finds. */
  stats(): StoreStats;
  /** The counters alone, which cost no verb. */
  counters(): ClientCounters;
  /**
   * The records whose keys begin with `prefix`, as a store. Its calls put the prefix in front of
   * each key, and remove it from each key that they return. It is a view of this store: it ends
   * with the store, `stats` and `handle` are the store's, and its own `close` ends only the view.
   * On an ordered index a walk visits only those keys. On others `size`, `clear`, `keys` and the
   * like read the whole store, since its keys have no order.
   *
   * @throws StepwellError SW_INVALID_KEY for a prefix that could not begin a key.
   */
  namespace(prefix: Key, options?: NamespaceOptions): Store<V, K, W>;
  namespace<E extends Encoding>(
    prefix: Key,
    options: NamespaceOptions & { values: E },
  ): Store<Decoded<E>, K>;
  namespace<T>(
    prefix: Key,
    options: NamespaceOptions & { values: ValueFormat | ValueCodec<T> },
  ): Store<T, K, T>;
  /** The same store returning promises. */
  readonly async: AsyncStore<V, K, W>;
  /**
   * Pass it to `open` or `openSync` in another thread or process to reach this store, or with the
   * option `store` another one of the same pool. Only threads of this process can reach a `memory:`
   * pool.
   */
  readonly handle: PoolHandle;
  /**
   * Tells a helper that this handle is about to be closed, until the function is called that it
   * returns.
   *
   * @internal
   */
  beforeClose(listener: CloseListener): () => void;
  /** Lets go of the store; calls then raise SW_CLOSED. The records stay in the pool. */
  close(): void;
  [Symbol.dispose](): void;
}

/** The calls of `Store`, returning promises: each does what the one of the same name does. */
export interface AsyncStore<V = Value, K extends Key = Key, W = Written<V>> extends Named {
  get(key: Key): Promise<V | undefined>;
  getEntry(key: Key): Promise<Entry<V> | undefined>;
  has(key: Key): Promise<boolean>;
  set(key: Key, value: W, options?: ExpiryOptions): Promise<void>;
  insert(key: Key, value: W, options?: ExpiryOptions): Promise<boolean>;
  update(key: Key, value: W, options?: ExpiryOptions): Promise<boolean>;
  write(key: Key, value: W, options?: WriteOptions): Promise<WriteResult<V>>;
  expire(key: Key, options?: ExpiryOptions): Promise<boolean>;
  ttl(key: Key): Promise<number | undefined>;
  metadata(key: Key): Promise<RecordMetadata | undefined>;
  delete(key: Key): Promise<boolean>;
  take(key: Key): Promise<V | undefined>;
  compareAndSet(
    key: Key,
    version: number,
    value: W,
    options?: ReplaceOptions,
  ): Promise<number | undefined>;
  compareAndDelete(key: Key, version: number): Promise<boolean>;
  increment(key: Key, by?: number, options?: ExpiryOptions): Promise<number>;
  increment(key: Key, by: bigint, options?: ExpiryOptions): Promise<bigint>;
  swap(
    key: Key,
    value: W,
    options?: Omit<WriteOptions, 'when' | 'previous'>,
  ): Promise<V | undefined>;
  append(key: Key, value: Value, options?: ExpiryOptions): Promise<number>;
  incrementWithin(
    key: Key,
    by: number,
    options: BoundedOptions<number>,
  ): Promise<BoundedIncrement<number>>;
  incrementWithin(
    key: Key,
    by: bigint,
    options: BoundedOptions<bigint>,
  ): Promise<BoundedIncrement<bigint>>;
  /** @internal */
  changeState<T>(name: string, decide: Decide<T>): Promise<T>;
  /** @internal */
  readStates(from: string, to: string, limit: number): Promise<StatesRead>;
  /** @internal */
  copyPage(cursor: number, count: number): Promise<{ cursor: number; records: CopiedRecord[] }>;
  /** @internal */
  putCopies(copies: readonly CopiedRecord[]): Promise<void>;
  getMany(keys: readonly Key[], options?: { maxBytes?: number }): Promise<(V | undefined)[]>;
  setMany(entries: Iterable<readonly [Key, W]>, options?: ExpiryOptions): Promise<void>;
  deleteMany(keys: readonly Key[]): Promise<number>;
  read<T>(key: Key, use: (bytes: Uint8Array) => T): Promise<T | undefined>;
  entries(): AsyncIterableIterator<[K, V]>;
  entries(range: ScanOptions): AsyncScan<[K, V]>;
  keys(): AsyncIterableIterator<K>;
  keys(range: ScanOptions): AsyncScan<K>;
  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  [Symbol.asyncIterator](): AsyncIterableIterator<[K, V]>;
  /** As the synchronous one; waits for what `use` returns before the next record. */
  forEach(use: (value: V, key: K, store: this) => unknown): Promise<void>;
  scan(range?: ScanOptions): AsyncScan<[K, V]>;
  scanPage(cursor: number, count?: number): Promise<Page<V, K>>;
  scanKeys(cursor: number, count?: number, options?: { prefix?: Key }): Promise<KeyPage>;
  first(bounds?: RangeBounds): Promise<[K, V] | undefined>;
  last(bounds?: RangeBounds): Promise<[K, V] | undefined>;
  count(bounds?: RangeBounds): Promise<number>;
  /** As the synchronous one; what an AsyncIterable gives is gathered first. */
  loadSorted(
    entries: Iterable<readonly [Key, W]> | AsyncIterable<readonly [Key, W]>,
  ): Promise<number>;
  size(): Promise<number>;
  clear(range?: RangeOptions): Promise<number>;
  stats(): Promise<StoreStats>;
  counters(): Promise<ClientCounters>;
  namespace(prefix: Key, options?: NamespaceOptions): AsyncStore<V, K, W>;
  namespace<E extends Encoding>(
    prefix: Key,
    options: NamespaceOptions & { values: E },
  ): AsyncStore<Decoded<E>, K>;
  namespace<T>(
    prefix: Key,
    options: NamespaceOptions & { values: ValueFormat | ValueCodec<T> },
  ): AsyncStore<T, K, T>;
  /**
   * The same store, whose calls, walks and scans raise SW_ABORTED, with the signal's reason as
   * `cause`, as soon as the signal is aborted; so do its namespaces. A call that was under way may
   * have happened, or happens yet; one on many keys begins no more of them. `close` closes the
   * store and does not go by the signal.
   *
   * @throws StepwellError SW_INVALID_ARGUMENT for what is no AbortSignal.
   */
  withSignal(signal: AbortSignal): AsyncStore<V, K, W>;
  /** The same store with synchronous calls, where the fabric is memory. */
  readonly sync: Store<V, K, W>;
  readonly handle: PoolHandle;
  /** @internal */
  beforeClose(listener: CloseListener): () => void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Where a store is, structured-cloneable: its name, and the buffers of a `memory:` pool or the URL
 * of another one. A URL alone does, too. Secrets and TLS options are not in it.
 */
export type PoolHandle =
  | string
  | { readonly memory: readonly SharedArrayBuffer[]; readonly store?: string }
  | { readonly url: string; readonly store?: string };
