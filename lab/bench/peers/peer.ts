/** A store that answers before the call returns: Map, lmdb, Stepwell. */
export interface SyncPeer {
  readonly kind: 'sync';
  get(key: string): Uint8Array | undefined;
  set(key: string, value: Buffer): void;
  getMany?(keys: readonly string[]): (Uint8Array | undefined)[];
  /** Loads records in bulk, if the peer can. The caller reuses the arrays. */
  setMany?(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void;
  /** Calls `use` with the value of `count` records from `key` on; ordered stores only. */
  scan?(key: string, count: number, use: (value: Uint8Array) => void): void;
  /** Facts for the report. */
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

/** A store that answers by promise: Redis behind its connection, classic-level in its threads. */
export interface AsyncPeer {
  readonly kind: 'async';
  get(key: string): Promise<Uint8Array | null>;
  set(key: string, value: Buffer): Promise<unknown>;
  scan?(key: string, count: number, use: (value: Uint8Array) => void): Promise<void>;
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

export type Peer = SyncPeer | AsyncPeer;
