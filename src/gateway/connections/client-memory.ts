/** The part of a connection that `ClientMemory` uses. */
export interface MemoryHolder {
  /** Whether it must not be evicted. */
  readonly isKept: boolean;
  /** Releases what it holds. Called after its share was closed. */
  evict(): void;
}

/**
 * Bounds what all connections hold together: partial and waiting requests, and replies that their
 * clients have not read. Beyond the bound, the connection that holds most is evicted, as Redis does
 * beyond `maxmemory-clients`. A client that reads its replies holds little, so one that does not is
 * evicted first.
 */
export class ClientMemory {
  bytesMax: number;
  /** Bytes that each connection holds. */
  readonly #shares = new Map<MemoryHolder, number>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Bytes that all connections hold. */
  get bytes(): number {
    return this.#bytes;
  }

  open(holder: MemoryHolder): void {
    this.#shares.set(holder, 0);
  }

  /** Reports how much a connection holds. It, or another one, may be evicted at once. */
  update(holder: MemoryHolder, bytes: number): void {
    const before = this.#shares.get(holder);
    if (before === undefined || before === bytes) return;
    this.#shares.set(holder, bytes);
    this.#bytes += bytes - before;
    // Each round closes a share, so there are at most as many rounds as shares.
    while (this.#bytes > this.bytesMax && this.#evictLargest());
  }

  close(holder: MemoryHolder): void {
    this.#bytes -= this.#shares.get(holder) ?? 0;
    this.#shares.delete(holder);
  }

  /** Returns false if no connection may be evicted. */
  #evictLargest(): boolean {
    let [largest, most]: [MemoryHolder | undefined, number] = [undefined, -1];
    for (const [holder, bytes] of this.#shares) {
      if (!holder.isKept && bytes > most) [largest, most] = [holder, bytes];
    }
    if (largest === undefined) return false;
    this.close(largest);
    largest.evict();
    return true;
  }
}
