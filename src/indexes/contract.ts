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
  /** Stands for the kind in the catalog, for ever: at most 12 letters of a-z or -. */
  name: string;
  ordered: boolean;
  /** Whether walks, too, come in the order of the keys, and a walk's hint leads straight there. */
  orderedWalk: boolean;
  onlineResize: boolean;
  /** Those of its counters that say what a client did to let the index grow. */
  resizes: readonly string[];
  /**
   * Whether a client that dies may leave a lock behind, which another one takes over as soon as it
   * learns of the death. Where no client could learn of it, such an index is not opened.
   */
  locks?: true;
  /** Whether a client may have `ClientSettings.delegation`, and `hotspots`. */
  delegation?: true;
  hotspots?: true;
  /**
   * Whether removed records keep their blocks until a merge, so that a store which evicts must
   * evict ahead of its need. `compact` can then free some of them.
   */
  retiresLate?: true;
  /**
   * Whether short records stand in the tables, so that an eviction can make room in a table:
   * `TableIndex`.
   */
  evictsInTable?: true;
  /** Whether a near cache may keep its records: `ProvingIndex`. */
  proves?: true;
  /** Whether it is made of parts, each on one memory node: `PlacedIndex`. */
  placed?: true;
  /** Whether the blocks of all records, and no others, are marked as current: see allocator.ts. */
  marksCurrent?: true;
}

/** Settings that a client chooses for itself: clients of one index need not agree. */
export interface ClientSettings {
  /** Operations in flight on one key share verbs: see delegation.ts. */
  delegation?: boolean | undefined;
  /** For how many keys the client remembers where they stand: see leaf/hotspots.ts. */
  hotspots?: number | undefined;
  /** READs do not wait for a network, so a search saves READs rather than round trips. */
  readsAtOnce?: boolean | undefined;
  /** How long operations wait for one and the same holder of a lock. */
  lockTimeoutMs?: number | undefined;
}

/** When a write takes effect. */
export const ALWAYS = 0;
export const IF_ABSENT = 1;
export const IF_PRESENT = 2;
export const IF_VERSION = 3;
/** As ALWAYS, and the outcome tells of the old record, which may cost a search. */
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

/** Named numbers that say how an index was built; unsigned 32-bit, `seed` is one of them. */
export type IndexParameters = Readonly<Record<string, number>>;

/** One kind of index: how it is made in a pool and opened by a client. */
export interface IndexKind {
  readonly manifest: IndexManifest;
  /** The parameters in the order in which the catalog keeps them; at most 12. */
  readonly parameterNames: readonly string[];
  /** Those that are 1 or 0, and true or false to users. */
  readonly flags: readonly string[];
  /** All parameters of a new index, given some of them. Raises SW_INVALID_ARGUMENT. */
  parameters(
    wishes: Readonly<Record<string, number | undefined>>,
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
  /** What the index grows by: subtables, segments, leaves. */
  subtables: number;
  /** Records that would fit. */
  slots: number;
  records: number;
  /**
   * How many records the index holds whole, and how many only by address. Present if it keeps short
   * items itself.
   */
  inline?: number;
  indirect?: number;
}

/** What a check hands out and collects. */
export interface CheckSink {
  problem(text: string): void;
  /** A block that the index or a key reaches. */
  reachable(address: Address, units: number): void;
  progress(records: number): void;
  /** Does something with every item, many of them at a time; left out where verbs take no time. */
  each?<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void>;
}

/**
 * A walk over all records, some at a time: a key that is present during the whole walk is visited
 * at least once, whatever is resized meanwhile.
 */
export interface IndexWalk {
  readonly done: boolean;
  /** Where the walk goes on, as a safe integer: 0 at the start and at the end. */
  readonly cursor: number;
  /**
   * Visits the next records, maybe none. The visitor finds each as the request's found one, checked
   * and complete, and its key in `outgoing` as `Request.adoptKey` leaves it. A caller that wants
   * the keys only says so: the record need not be complete or checked then, and its value not be
   * read.
   */
  next(visit: (request: Request, keyBytes: number) => void, keysOnly?: boolean): Operation<void>;
}

/** One end of a range of keys. */
export interface KeyBound {
  key: Uint8Array;
  inclusive: boolean;
}

/** Keys in the lexicographic order of their bytes; a bound that is left out is no bound. */
export interface KeyRange {
  lower?: KeyBound | undefined;
  upper?: KeyBound | undefined;
  /** From the highest key to the lowest. */
  reverse?: boolean;
  /** No more records are visited, and not many more read. Default: all. */
  limit?: number | undefined;
  /** Parts of the index (leaves) that are read in one doorbell at most. Default: the index's. */
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
   * Visits the next records, maybe none, as `IndexWalk.next` does. An index may hand records to
   * `visitBlock`, if there is one, that it has together: none with times, none of helpers.
   */
  next(
    visit: (request: Request, keyBytes: number) => void,
    keysOnly?: boolean,
    visitBlock?: (block: RecordBlock) => void,
  ): Operation<void>;
  /**
   * As `next`, but only counts: parts that are in the range as a whole by their slots, without
   * reading records. An index may lack it.
   */
  countNext?(): Operation<number>;
  /**
   * Goes on at the first key from this one on, in the direction of the scan and within its range,
   * also backwards. The limit begins again.
   */
  seek(key: Uint8Array): void;
}

/**
 * Records whose keys and values stand in one piece of local memory, verified and whole: where each
 * begins, zero-padded to 8 bytes, and its length. Good while they are visited.
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
  /**
   * How often this client's operations had to begin again or wait, by reason, and how often they
   * did what `IndexManifest.resizes` names.
   */
  readonly counters: Counters;
  /** Changes the settings that are named. An index without any of them lacks this. */
  configure?(settings: ClientSettings): void;
  /** Idle requests to run operations with. */
  newRequest(): Request;
  /** Whether the key is present; the record is then the request's found one. */
  search(request: Request): Operation<boolean>;
  /**
   * Searches for the keys of requests 0..count-1 in doorbells that they share; `batch` is the
   * caller's to lend. `found[i]` becomes what `search` would return for request i.
   */
  searchMany(
    requests: readonly Request[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void>;
  /**
   * Stores the request's outgoing value under the condition; `expected` is the version for
   * IF_VERSION. With REPLACED, or REFUSED because of a present key, the old record is the found
   * one.
   */
  write(request: Request, condition: Condition, expected?: number): Operation<Outcome>;
  /**
   * Removes the key; the removed record is the found one. With `expected` it removes the key only
   * if its record has that version.
   */
  remove(request: Request, expected?: number): Operation<boolean>;
  /**
   * Replaces the value by what `compute` puts as the request's value, atomically; `compute` may run
   * several times. It reads the found record, or none when the key is absent (`present` false).
   */
  modify(request: Request, compute: (present: boolean) => void): Operation<Outcome>;
  /** Counts by a walk over the tables; `shapeOf` does without. */
  shape?(): Operation<IndexShape>;
  /**
   * A drawing of up to `partsMax` parts of each layer, read as they are, by READs alone. It reads
   * nothing else, except the directory once, when the index is opened. `pictureFrom` draws an index
   * that lacks this.
   */
  picture?(partsMax: number): Operation<IndexPicture>;
  /**
   * The parts of the index, from the beginning or a cursor: walks are made of them (`walkOf`).
   * Raises SW_INVALID_ARGUMENT for an invalid cursor. With `whole`, which begins at the beginning,
   * they name every block that is reachable during the whole walk, of the index itself and of all
   * records, and maybe more. Sweeps go through these (`eachReachable`).
   */
  parts(cursor?: number, whole?: boolean): Parts;
  /**
   * Visits up to about `enough` records at the given places of the index, numbers of [0, 1). With
   * random numbers, each record is about as likely to be visited as any other. It visits fewer or
   * none where the places are empty. A visit is as in a walk that wants the keys only; a record may
   * have been replaced since. `request` is lent for it. An index that lacks this is sampled by its
   * parts (`sampleOf`).
   *
   * When `places` is a request (`IndexManifest.evictsInTable`), it visits all records where a table
   * would keep the outgoing one: an eviction makes room for it only there. It visits none where
   * there is room, and the whole table if `enough` is Infinity.
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
   * merge, claims of dead clients, or leaves that could be packed. It also does what deletions wait
   * for. No client but the sweeper of a full pool runs it, between operations and in an epoch. It
   * does not rely on free memory. `grace` returns when no client holds an address any more that was
   * unlinked before, or false when that takes too long. `forDeletion` tells whether a deletion met
   * the full pool. Returns how many parts of the index it has changed.
   *
   * Without `grace` (`IndexManifest.retiresLate`) it only frees the blocks of some removed records,
   * in a bounded number of steps, and any client runs it.
   */
  compact?(grace?: () => Operation<boolean>, forDeletion?: boolean): Operation<number>;
}

/** An index whose records a near cache can prove where they stand: those whose manifest says so. */
export interface ProvingIndex extends Index {
  /**
   * After a search that found the key, in the same section and before the next round trip of the
   * request's: fills the proof with the words that made the record the key's. As long as they stand
   * where they stood, and `proofEra` is what it was, a search would find the same record. They are
   * compared in a section: the slot first, then the mark, then the header. False when the place
   * proves nothing.
   */
  prove(request: Request, proof: Proof): boolean;
  /**
   * Changes, in a section's `enter` at the latest, when the tables that proofs are about may be
   * freed; negative while no proof counts. Left out by an index whose tables stay.
   */
  readonly proofEra?: number;
}

/** An index that keeps short records in its tables: those with `evictsInTable`. */
export interface TableIndex extends Index {
  /**
   * Removes records of the table where the outgoing one of `own` would stand: those that `chooses`
   * accepts, which meets each in `met` as a visit of a sample does. Removes as many as one change
   * of the table can, and returns whether there may be more. Records of several blocks stay.
   */
  removeBeside(
    own: Request,
    met: Request,
    chooses: (met: Request, keyBytes: number) => boolean,
  ): Operation<boolean>;
}

/** An index that is made of parts, each on one memory node: those whose manifest says so. */
export interface PlacedIndex extends Index {
  readonly placement: NodePlacement;
}

/** What of an index is on one memory node. */
export interface NodeShare {
  /** Counted from 0, in the order of the pool's URL. */
  node: number;
  /** Whether the node is one of those that parts are placed on. */
  placed: boolean;
  /** Parts of the index that are on the node, or on their way there. */
  parts: number;
  /** What their tables take. */
  bytes: number;
}

/** The move of one part of an index to the memory node where it is to be. */
export interface PartMigration {
  readonly done: boolean;
  /** Whether there was anything to move. */
  readonly moved: boolean;
  /** Some of it: an operation of its own. Raises SW_POOL_FULL when that node is full. */
  next(): Operation<void>;
}

/** On which memory nodes the parts of an index are; all may move while others use them. */
export interface NodePlacement {
  shares(): Operation<NodeShare[]>;
  /** Changes the nodes that parts are placed on; nothing is moved by this alone. */
  changeNodes(change: (nodes: readonly number[]) => readonly number[]): Operation<void>;
  /** For each part, how it comes to where it is to be. Any of them may be given up, or go on. */
  rebalancing(): PartMigration[];
}

/** An index that keeps its keys in order: those whose manifest says so. */
export interface OrderedIndex extends Index {
  /**
   * Fills an empty index with records in strictly ascending order of their keys, all or none of
   * them; returns how many there were. Raises SW_INVALID_ARGUMENT when it is not empty or a key
   * does not ascend. An index may lack it.
   */
  load?(entries: Iterable<readonly [Bytes, Bytes]>, version: number): Operation<number>;
  scan(range?: KeyRange): IndexScan;
  /**
   * With `orderedWalk`: a walk through the keys in order, or through those of a range (forward).
   * The parts of such an index are for sweeps only.
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

/** The counters of what a client did to let the index grow. */
export function resizesOf({ counters, manifest }: Index): Counters {
  return Object.fromEntries(manifest.resizes.map((name) => [name, counters[name]]));
}

/** The counters of why operations began again or waited. */
export function retriesOf({ counters, manifest }: Index): Counters {
  return Object.fromEntries(
    Object.entries(counters).filter(([name]) => !manifest.resizes.includes(name)),
  );
}
