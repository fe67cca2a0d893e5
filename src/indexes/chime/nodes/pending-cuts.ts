/** Most cuts to remember. Any client that changes a node there absorbs the others. */
const CUTS_MAX = 64;
/** Most writes to skip after a failed attempt. */
const SKIPS_MAX = 1024;

/** Keys at which this client has cut a node that the level above has yet to absorb. */
export class PendingCuts {
  readonly #keys: Uint8Array[] = [];
  #writesToSkip = 0;
  /** How many writes to skip after the next failed attempt. */
  #skipNext = 1;

  get length(): number {
    return this.#keys.length;
  }

  add(key: Uint8Array): void {
    if (this.#keys.length < CUTS_MAX) this.#keys.push(key);
  }

  /** Called before a write: removes and returns the key of a cut to absorb now. */
  take(): Uint8Array | undefined {
    if (this.#keys.length === 0) return undefined;
    if (this.#writesToSkip === 0) return this.#keys.shift();
    this.#writesToSkip--;
    return undefined;
  }

  absorbed(): void {
    this.#skipNext = 1;
  }

  /** Puts the cut back. The pause before the next attempt grows, because each delays a write. */
  failed(key: Uint8Array): void {
    this.add(key);
    this.#writesToSkip = this.#skipNext;
    this.#skipNext = Math.min(2 * this.#skipNext, SKIPS_MAX);
  }
}
