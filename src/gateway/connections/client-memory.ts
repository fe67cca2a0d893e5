/** A connection's share of the memory for clients. */
export interface MemoryAccount {
  /** Bytes that it holds now, as last told. */
  readonly bytes: number;
  /** Tells how much it holds. Connections are evicted when all hold too much: maybe this one. */
  update(bytes: number): void;
  close(): void;
}

/**
 * Bounds what all connections hold together: partial and waiting requests, and replies that their
 * clients have not read. Beyond the bound, the connection that holds most is evicted, as Redis does
 * beyond `maxmemory-clients`. A client that reads what it asks for holds little, so one that does
 * not is evicted first.
 */
export class ClientMemory {
  bytesMax: number;
  readonly #accounts = new Set<Account>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Bytes that all connections hold. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * `evict` gives up what the connection holds; its account is closed before it is called. A
   * connection that `isKept` is not evicted.
   */
  open(evict: () => void, isKept = () => false): MemoryAccount {
    const account = new Account(this, evict, isKept);
    this.#accounts.add(account);
    return account;
  }

  /** For accounts. */
  change(account: Account, by: number): void {
    if (!this.#accounts.has(account)) return;
    this.#bytes += by;
    // Each turn closes an account, so that there are no more turns than accounts.
    while (this.#bytes > this.bytesMax && this.#evictLargest());
  }

  /** For accounts. */
  forget(account: Account): void {
    if (this.#accounts.delete(account)) this.#bytes -= account.bytes;
  }

  /** False if there is none to evict. */
  #evictLargest(): boolean {
    let largest: Account | undefined;
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

class Account implements MemoryAccount {
  readonly evict: () => void;
  readonly isKept: () => boolean;
  readonly #memory: ClientMemory;
  bytes = 0;

  constructor(memory: ClientMemory, evict: () => void, isKept: () => boolean) {
    this.#memory = memory;
    this.evict = evict;
    this.isKept = isKept;
  }

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
