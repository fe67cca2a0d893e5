import type { Pool } from '../pool/pool.ts';
import type { Bytes } from '../records/codec.ts';
import type { Address, Batch, Operation, Scratch } from '../verbs/index.ts';
import type { IndexPicture } from './picture.ts';
import type { Proof } from './substrates/proof.ts';
import type { RecordIo } from './substrates/record-io.ts';
import type { Request } from './substrates/request.ts';
import type { Parts } from './traversal/parts.ts';

/** An index's abilities beyond the contract; the conformance suite reads them. */
export interface IndexManifest {
  /** The kind's name in the catalog, which never changes: at most 12 characters, a-z or -. */
  name: string;
  ordered: boolean;
  /** Whether walks visit keys in order, so that a walk over a range reads only that range. */
  orderedWalk: boolean;
  /** Whether the index grows without making other clients' writes wait. */
  onlineResize: boolean;
  /** The names of the `Index.counters` that count what this client did to grow the index. */
  resizes: readonly string[];
  /**
   * Whether a client that dies may leave a lock behind. Another client takes the lock over as soon
   * as it learns of the death. Where clients could not learn of it, opening the index is refused.
   */
  locks?: true;
  /** Whether `ClientSettings.delegation` works, and `hotspots`. */
  delegation?: true;
  hotspots?: true;
  /**
   * Whether removed records keep their blocks until a merge, so that a store which evicts must
   * evict ahead of its need. `compact` can then free some of them.
   */
  retiresLate?: true;
  /** Whether tables hold short records, so that evictions make room in them: `TableIndex`. */
  evictsInTable?: true;
  /** Whether a near cache may keep its records: `ProvingIndex`. */
  proves?: true;
  /** Whether it is made of parts, each on one memory node: `PlacedIndex`. */
  placed?: true;
  /** Whether it marks exactly the blocks of its records as current: see allocator.ts. */
  marksCurrent?: true;
}

/** Settings that a client chooses for itself: clients of one index need not agree. */
export interface ClientSettings {
  /** Operations in flight on one key share verbs: see delegation.ts. */
  delegation?: boolean | undefined;
  /** For how many keys the client remembers their leaf and entry: see leaf/hotspots.ts. */
  hotspots?: number | undefined;
  /** This client's READs wait for no network: a search saves READs rather than round trips. */
  readsAtOnce?: boolean | undefined;
  /** How long an operation waits while the same client holds a lock. */
  lockTimeoutMs?: number | undefined;
}

/** When a write takes effect. */
export const ALWAYS = 0;
export const IF_ABSENT = 1;
export const IF_PRESENT = 2;
export const IF_VERSION = 3;
/** As ALWAYS, but the outcome must tell whether there was an old record: that may take a search. */
export const EXCHANGE = 4;
export type Condition =
  | typeof ALWAYS
  | typeof IF_ABSENT
  | typeof IF_PRESENT
  | typeof IF_VERSION
  | typeof EXCHANGE;

/** How a write ended. */
export const REFUSED = 0;
export const INSERTED = 1;
export const REPLACED = 2;
/** Stored, by an index that does not look for an old record first; only with ALWAYS. */
export const STORED = 3;
export type Outcome = typeof REFUSED | typeof INSERTED | typeof REPLACED | typeof STORED;

/** How often something happened, by name. */
export type Counters = Readonly<Record<string, number>>;

/** How an index was built, as named unsigned 32-bit numbers. One of them is `seed`. */
export type IndexParameters = Readonly<Record<string, number>>;

/** One kind of index: how to create one in a pool and how a client opens it. */
export interface IndexKind {
  readonly manifest: IndexManifest;
  /** The parameters in the order in which the catalog keeps them; at most 12. */
  readonly parameterNames: readonly string[];
  /** The parameters that are 1 or 0 in the pool, and true or false in options. */
  readonly flags: readonly string[];
  /** All parameters of a new index, given some of them. Raises SW_INVALID_ARGUMENT. */
  parameters(
    given: Readonly<Record<string, number | undefined>>,
    poolBytes: number,
    seed: number,
    /** Memory nodes of the pool; 1 when left out. */
    nodes?: number,
  ): IndexParameters;
  /** Builds an empty index for the store `catalog`; returns its root. */
  create(pool: Pool, parameters: IndexParameters, catalog: number): Operation<Address>;
  open(pool: Pool, parameters: IndexParameters, catalog: number, root: Address): Operation<Index>;
}

export interface IndexShape {
  globalDepth: number;
  /** How many subtables, segments or leaves it has: the units that it grows by. */
  subtables: number;
  /** How many records would fit. */
  slots: number;
  records: number;
  /** How many records the tables hold, and how many they only name; if they hold short records. */
  inline?: number;
  indirect?: number;
}

/** Where a check reports what it finds. */
export interface CheckSink {
  problem(text: string): void;
  /** Reports a block that the index or one of its records occupies. */
  reachable(address: Address, units: number): void;
  progress(records: number): void;
  /** Runs `act` on every item, many at a time. Absent where verbs finish at once. */
  each?<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void>;
}

/**
 * A walk over all records, some at a time: a key that is present during the whole walk is visited
 * at least once, whatever is resized meanwhile.
 */
export interface IndexWalk {
  readonly done: boolean;
  /** From where another walk can continue, as a safe integer: 0 at the start and at the end. */
  readonly cursor: number;
  /**
   * Visits the next records, maybe none. Each is the request's found record, checked and complete;
   * its key is in `outgoing`, as `Request.adoptKey` leaves it. With `keysOnly` the record may be
   * unchecked and incomplete, and its value unread.
   */
  next(visit: (request: Request, keyBytes: number) => void, keysOnly?: boolean): Operation<void>;
}

/** Removes the records of an index, some at a time. */
export interface Clearing {
  readonly done: boolean;
  /** How many it has removed; may be repeated after a failure. */
  next(): Operation<number>;
}

/** One end of a range of keys. */
export interface KeyBound {
  key: Uint8Array;
  inclusive: boolean;
}

/** A range of keys in the lexicographic order of their bytes. */
export interface KeyRange {
  lower?: KeyBound | undefined;
  upper?: KeyBound | undefined;
  /** From the highest key to the lowest. */
  reverse?: boolean;
  /** How many records to visit at most; few more are read. Default: all. */
  limit?: number | undefined;
  /** How many leaves to read in one doorbell at most. Default: the index's choice. */
  width?: number | undefined;
}

/**
 * A scan of a range, some records at a time. It visits each key that is present during the whole
 * scan exactly once, in order, with a value that was current at some moment of the scan. Each
 * `next` is an operation of its own; between two of them the caller may leave its epoch.
 */
export interface IndexScan {
  readonly done: boolean;
  /**
   * Visits the next records, maybe none, as `IndexWalk.next` does. If there is a `visitBlock`, the
   * index may pass several records at once to it, unless one of them expires or is a helper's.
   */
  next(
    visit: (request: Request, keyBytes: number) => void,
    keysOnly?: boolean,
    visitBlock?: (block: RecordBlock) => void,
  ): Operation<void>;
  /**
   * As `next`, but only counts. For a leaf that lies wholly in the range it counts the slots and
   * reads no records. An index may lack it.
   */
  countNext?(): Operation<number>;
  /**
   * Continues the scan at this key, or at the next one in the scan's direction, within its range.
   * The key may be one that the scan has passed. The limit counts from 0 again.
   */
  seek(key: Uint8Array): void;
}

/**
 * Verified records whose keys and values are all in `words`: the offset of each key and value,
 * which are zero-padded to 8 bytes, and its length. Valid until `visitBlock` returns.
 */
export interface RecordBlock {
  readonly words: Scratch;
  readonly count: number;
  readonly keyAt: Int32Array;
  readonly keyBytes: Int32Array;
  readonly valueAt: Int32Array;
  readonly valueBytes: Int32Array;
  readonly codec: Uint8Array;
}

/**
 * Every index is written against this contract: operations on one key, linearizable per key. The
 * key is already in the request; results are left in it. `version` is the new record's version.
 */
export interface Index {
  readonly manifest: IndexManifest;
  readonly records: RecordIo;
  /** How often this client's operations began again or waited, by reason; and `resizes`. */
  readonly counters: Counters;
  /** Changes the given settings. An index that has none of them lacks this. */
  configure?(settings: ClientSettings): void;
  /** A new request, to run one operation at a time with. */
  newRequest(): Request;
  /** Whether the key is present. Its record is then the request's found one. */
  search(request: Request): Operation<boolean>;
  /**
   * Searches for the keys of requests 0..count-1 together, one doorbell per round trip, built in
   * the caller's `batch`. Sets `found[i]` to what `search` would return for request i.
   */
  searchMany(
    requests: readonly Request[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void>;
  /**
   * Stores the request's outgoing value under the condition; `expected` is the version for
   * IF_VERSION. After REPLACED, or REFUSED because the key is present, the old record is the found
   * one.
   */
  write(request: Request, condition: Condition, expected?: number): Operation<Outcome>;
  /**
   * Removes the key; the removed record is the found one. With `expected` it removes the key only
   * if its record has that version.
   */
  remove(request: Request, expected?: number): Operation<boolean>;
  /**
   * Atomically replaces the value by the one that `compute` puts into the request; `compute` may
   * run several times. It can read the found record, which there is only if `present` is true.
   */
  modify(request: Request, compute: (present: boolean) => void): Operation<Outcome>;
  /** Counts slots and records by reading the tables. `shapeOf` counts for an index without this. */
  shape?(): Operation<IndexShape>;
  /**
   * A drawing of up to `partsMax` parts of each layer, by READs alone: it may be inconsistent, and
   * it reads nothing else except the directory, once, when the index is opened. `pictureFrom` draws
   * an index without this.
   */
  picture?(partsMax: number): Operation<IndexPicture>;
  /**
   * The parts of the index, from the start or a cursor; `walkOf` makes walks of them. Raises
   * SW_INVALID_ARGUMENT for an invalid cursor. With `whole` (from the start only) they name every
   * block of the index and its records that stays reachable throughout the traversal, and maybe
   * more. Sweeps go through these (`eachReachable`).
   */
  parts(cursor?: number, whole?: boolean): Parts;
  /**
   * Removes most records, many in one change, except those with a codec and those that expire.
   * Absent unless this is faster than removing them one by one. It may leave any record behind, and
   * names none of those that it removes.
   */
  clearing?(keptCodec: number): Clearing;
  /**
   * Visits up to about `enough` records at the given places of the index, numbers in [0, 1), using
   * `request` for it. With random numbers, each record is about as likely to be visited as any
   * other. It visits fewer or none where the places are empty. A visit is as in a walk with
   * `keysOnly`; the record may have been replaced since. `sampleOf` samples an index without this.
   *
   * When `places` is a request (`IndexManifest.evictsInTable`), it visits the records that share
   * with the request's key the slots where a table could hold it: only evicting one of them makes
   * room. It visits none if there is room, and the whole table if `enough` is Infinity.
   */
  sample?(
    request: Request,
    places: readonly number[] | Request,
    enough: number,
    visit: (request: Request, keyBytes: number) => void,
  ): Operation<void>;
  /** Verifies every invariant; returns how many records there are. */
  check(sink: CheckSink): Operation<number>;
  /**
   * Frees memory that the index does not need, such as records of deleted keys that wait for a
   * merge, claims of dead clients, or leaves that could be packed. It needs no free memory. The
   * sweeper of a full pool alone runs it, between operations and in an epoch. `grace` waits until
   * no client holds an address that was unlinked before the call; it returns false when that takes
   * too long. `forDeletion` says that a deletion needs the memory: it may then make room for
   * deletions at the cost of insertions. Returns how many parts of the index it has changed.
   *
   * Without `grace` (`IndexManifest.retiresLate`) it only frees the blocks of some removed records,
   * in a bounded number of steps, and any client may run it.
   */
  compact?(grace?: () => Operation<boolean>, forDeletion?: boolean): Operation<number>;
}

/** An index that can prove that a near cache's record is still current: `IndexManifest.proves`. */
export interface ProvingIndex extends Index {
  /**
   * Fills the proof with the words of the pool that lead from the key to the record. As long as
   * those words and `proofEra` are unchanged, a search would find the same record. A reader
   * compares them within an epoch section: the slot, then the mark, then the header. To be called
   * after a search that found the key, in the same section and before the request's next round
   * trip. Returns false when such words cannot prove that.
   */
  prove(request: Request, proof: Proof): boolean;
  /**
   * The same for the record that a write has stored, of which the write knows all words. To be
   * called after the write, in its section. Returns false if the write was refused or replaced no
   * record. An index whose writes do not learn the place leaves it out.
   */
  proveWritten?(request: Request, proof: Proof): boolean;
  /**
   * Changes, at the latest in a client's next `enter`, before a table that proofs refer to is
   * freed. Negative while no proof is valid. An index that frees no such table leaves it out.
   */
  readonly proofEra?: number;
}

/** An index that keeps short records in its tables: those with `evictsInTable`. */
export interface TableIndex extends Index {
  /**
   * Removes the records that `chooses` accepts from the table where the key of `own` belongs.
   * `chooses` sees each record in `met`, as a visit of `sample` does. Removes as many as one change
   * of the table can, and returns whether there may be more. Keeps records of several blocks.
   */
  removeBeside(
    own: Request,
    met: Request,
    chooses: (met: Request, keyBytes: number) => boolean,
  ): Operation<boolean>;
}

/** An index that is made of parts, each on one memory node: `IndexManifest.placed`. */
export interface PlacedIndex extends Index {
  readonly placement: NodePlacement;
}

/** The share of an index that one memory node holds. */
export interface NodeShare {
  /** Counted from 0, in the order of the pool's URL. */
  node: number;
  /** Whether the index may place parts on the node. */
  placed: boolean;
  /** How many parts are on the node, or moving to it. */
  parts: number;
  /** Size of those parts' tables. */
  bytes: number;
}

/** The migration of one part of an index to the memory node that it is assigned to. */
export interface PartMigration {
  readonly done: boolean;
  /** Whether there was anything to move. */
  readonly moved: boolean;
  /** Does the next step, as an operation of its own. Raises SW_POOL_FULL when the node is full. */
  next(): Operation<void>;
}

/** On which memory nodes the parts of an index are. Parts can move while clients use them. */
export interface NodePlacement {
  shares(): Operation<NodeShare[]>;
  /** Changes the nodes that parts are assigned to. This alone moves nothing. */
  changeNodes(change: (nodes: readonly number[]) => readonly number[]): Operation<void>;
  /** A migration for each part. The next one for that part continues one that was abandoned. */
  rebalancing(): PartMigration[];
}

/** An index that keeps its keys in order: `IndexManifest.ordered`. */
export interface OrderedIndex extends Index {
  /**
   * Fills an empty index with records in strictly ascending order of their keys, with all or none
   * of them; returns how many. Raises SW_INVALID_ARGUMENT when the index is not empty or the keys
   * are not in that order. An index may lack this.
   */
  load?(entries: Iterable<readonly [Bytes, Bytes]>, version: number): Operation<number>;
  scan(range?: KeyRange): IndexScan;
  /**
   * With `orderedWalk`: a walk over all keys, or those of a range, in ascending order. Only sweeps
   * use the `parts` of such an index.
   */
  walk?(cursor?: number, range?: Pick<KeyRange, 'lower' | 'upper'>): IndexWalk;
}

export function isOrdered(index: Index): index is OrderedIndex {
  return index.manifest.ordered;
}

export function isProving(index: Index): index is ProvingIndex {
  return index.manifest.proves === true;
}

export function evictsInTable(index: Index): index is TableIndex {
  return index.manifest.evictsInTable === true;
}

export function isPlaced(index: Index): index is PlacedIndex {
  return index.manifest.placed === true;
}

/** The counters of what this client did to grow the index. */
export function resizesOf({ counters, manifest }: Index): Counters {
  return Object.fromEntries(manifest.resizes.map((name) => [name, counters[name]]));
}

/** The counters of this client's operations that began again or waited, by reason. */
export function retriesOf({ counters, manifest }: Index): Counters {
  return Object.fromEntries(
    Object.entries(counters).filter(([name]) => !manifest.resizes.includes(name)),
  );
}
