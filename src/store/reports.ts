/** What is reported about whole pools. */

/** The result of `stepwell inspect`. */
export interface PoolReport {
  url: string;
  /** Where the pool lives, e.g. a path; empty for `memory:`. */
  path: string;
  layoutVersion: number;
  createdAt: string;
  sizeMax: number;
  /** `sizeMax` at the pool's creation: see `grow`. */
  sizeAtFirst: number;
  regionSize: number;
  regions: number;
  chunkSize: number;
  chunks: { total: number; used: number; free: number };
  memory: MemoryReport;
  epoch: number;
  hugePages: boolean;
  /** Why the pool has none, if it is in the memory of nodes over UCX. */
  whyNoHugePages?: string;
  /** How many clients can be attached at once. */
  maxClients: number;
  /** How the verbs of a pool opened by `ucx://` run, as far as this client can tell. */
  fabric?: {
    name: string;
    version: string;
    transports: string;
    /** What executes CAS and FAA: the nodes' processors or their network cards. */
    atomics: string;
    notes: string[];
  };
  clients: {
    id: number;
    name: string;
    pid: number;
    thread: number;
    alive: boolean;
    self: boolean;
    attachedAt: string;
    epoch: number;
    /** Bytes as in `MemoryReport`, up to a second old; 0 if the client has published nothing. */
    claimed: number;
    waiting: number;
    /** Whether memory waits for this client: it is in an operation, or was stopped in one. */
    lags: boolean;
  }[];
  stores: {
    name: string;
    index: string;
    state: string;
    parameters: Record<string, number | boolean>;
    globalDepth: number;
    subtables: number;
    slots: number;
    records: number;
    loadFactor: number;
    /** As in `StoreStats`. */
    inline?: number;
    indirect?: number;
    memory: { records: number; subtables: number; directory: number };
  }[];
}

/**
 * Where the memory of a pool is, in bytes. `live`, `claimed`, `waiting`, `freeBlocks`, `freeChunks`
 * and `overhead` add up to `total`. Clients publish what they have claimed and what waits once a
 * second, so `live` of a busy pool is that old. What dead clients left behind counts as live.
 */
export interface MemoryReport {
  total: number;
  /** In use by records and indexes. */
  live: number;
  /** Blocks that clients have claimed but not used yet. */
  claimed: number;
  /** Removed or replaced, but another client may still read it: waits until the epoch moves on. */
  waiting: number;
  /** Free for blocks of one size of one store. */
  freeBlocks: number;
  /** Chunks that are free for any store and size. */
  freeChunks: number;
  /** Tables, intents, block states and the remainders of chunks. */
  overhead: number;
  stores: {
    /** Empty for chunks of a store that was dropped, or never completed. */
    store: string;
    /** In bytes. `used` includes what is claimed or waiting. */
    used: number;
    free: number;
    /** Null when clients hold memory that may belong to this store or to another one. */
    live: number | null;
  }[];
  /** By store and block size. A chunk that is used whole counts as one block. */
  blocks: { store: string; blockSize: number; chunks: number; used: number; free: number }[];
}

/** How a pool is checked. */
export interface CheckOptions {
  /** Called during the walk with the steps done so far and the total. */
  onProgress?: ((done: number, total: number) => void) | undefined;
  /**
   * If there are no problems, gives back the blocks that dead clients left, in all stores. The next
   * check is then certain about each record that no search finds. Other clients may go on working,
   * but one that is stopped in the middle of a call keeps the blocks from being freed.
   */
  sweep?: boolean | undefined;
}

/** The result of `stepwell check`. `problems` is empty if every invariant holds. */
export interface CheckReport {
  url: string;
  stores: {
    name: string;
    records: number;
    subtables: number;
    slots: number;
    bytes: number;
    /**
     * Clients that died with the store open, or left while what they had retired still waited,
     * since its last complete sweep.
     */
    unswept: number;
    /**
     * Blocks that these clients left: claimed ahead, or retired and never freed. No damage: the
     * next client that finds the pool full brings them back, and so does a check with `sweep`. If
     * `atMost` is set, some of them may be claims of living clients at work. `swept` tells whether
     * this check has brought them back.
     */
    leftover: { blocks: number; bytes: number; atMost: boolean; swept: boolean };
  }[];
  /** `claimed` blocks are in use, but no key leads to them: a client holds, left or lost them. */
  blocks: { reachable: number; claimed: number; free: number };
  /** The sums of the stores' `leftover`. */
  leftover: { blocks: number; bytes: number };
  /**
   * Intact records that no search finds, in stores that no other client uses. They are problems in
   * a store whose `unswept` is 0. Otherwise they may be records that a killed client had removed.
   * HStore marks its records, so there they are always problems.
   */
  unreachable: number;
  /**
   * Memory allocated for stores whose creator died before they were ready, by index. No damage: the
   * creator of the next store reclaims it, or a client that finds the pool full.
   */
  unfinished: { index: string; chunks: number; bytes: number }[];
  /** What is wrong, including blocks in use that no key leads to and no client can have left. */
  problems: string[];
}

/** The contents of a pool's copy. */
export interface CopyReport {
  url: string;
  sizeMax: number;
  maxClients: number;
  stores: { name: string; index: string; records: number }[];
}

/** The most bytes that a pool may hold, before and after growing it. */
export interface GrowReport {
  before: number;
  sizeMax: number;
}

/** The outcome of dropping a store. */
export interface DropReport {
  store: string;
  /** Bytes of the chunks that the store had. */
  bytes: number;
  /**
   * Clients that had the store open and have not let go of it. Its memory comes free for other
   * stores when the last of them has; empty when it is free now.
   */
  heldBy: string[];
}
