/**
 * Bounds what all connections hold together: partial and waiting requests, and replies that their
 * clients have not read. Beyond the bound, the connection that holds most is evicted, as Redis does
 * beyond `maxmemory-clients`. A client that reads its replies holds little, so one that does not is
 * evicted first.
 */
export class ClientMemory {
  bytesMax: number;
  readonly #accounts = new Set<MemoryAccount>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Bytes that all connections hold. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * `evict` releases what the connection holds; its account is closed before that call. A
   * connection is not evicted while `isKept` returns true.
   */
  open(evict: () => void, isKept = () => false): MemoryAccount {
    const account = new MemoryAccount(this, evict, isKept);
    this.#accounts.add(account);
    return account;
  }

  /** Called by accounts. */
  change(account: MemoryAccount, by: number): void {
    if (!this.#accounts.has(account)) return;
    this.#bytes += by;
    // Each round closes an account, so there are at most as many rounds as accounts.
    while (this.#bytes > this.bytesMax && this.#evictLargest());
  }

  /** Called by accounts. */
  forget(account: MemoryAccount): void {
    if (this.#accounts.delete(account)) this.#bytes -= account.bytes;
  }

  /** Returns false if no connection may be evicted. */
  #evictLargest(): boolean {
    let largest: MemoryAccount | undefined;
    for (const account of this.#accounts) {
      if (account.isKept()) continue;
      if (largest === undefined || account.bytes > largest.bytes) largest = account;
    }
    if (largest === undefined) return false;
    largest.close();
    largest.evict();
    return true;
  }
}

/** A connection's share of the memory for clients. */
export class MemoryAccount {
  readonly evict: () => void;
  readonly isKept: () => boolean;
  readonly #memory: ClientMemory;
  bytes = 0;

  constructor(memory: ClientMemory, evict: () => void, isKept: () => boolean) {
    this.#memory = memory;
    this.evict = evict;
    this.isKept = isKept;
  }

  /** Reports how much the connection holds. It, or another one, may be evicted at once. */
  update(bytes: number): void {
    const by = bytes - this.bytes;
    if (by === 0) return;
    this.bytes = bytes;
    this.#memory.change(this, by);
  }

  close(): void {
    this.#memory.forget(this);
  }
}
