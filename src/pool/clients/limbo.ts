import type { Address } from '../../verbs/index.ts';

/**
 * Blocks that this client unlinked and that others may still hold an address of, in the order of
 * unlinking. A block's tag is the epoch that this client had announced when it unlinked the block.
 * While an announcement stands the global epoch is it or one more (an announcement is verified
 * after it was made), so whoever may hold the address had announced at most tag + 1. The epoch
 * cannot reach tag + 3 before all of them have announced a later one.
 */
export const EPOCHS_TO_RIPEN = 3;

export class Limbo {
  #addresses: Address[] = [];
  #units: number[] = [];
  #tags: number[] = [];
  #head = 0;

  get length(): number {
    return this.#addresses.length - this.#head;
  }

  /** The oldest tag, or 0 when empty: what the client publishes as its limbo floor. */
  get floor(): number {
    return this.length === 0 ? 0 : this.#tags[this.#head];
  }

  /** Whether the youngest block may be re-used at `epoch`, and so all of them. */
  isRipe(epoch: number): boolean {
    return this.length === 0 || this.#tags[this.#tags.length - 1] + EPOCHS_TO_RIPEN <= epoch;
  }

  /** The addresses that wait. */
  addresses(): Address[] {
    return this.#addresses.slice(this.#head);
  }

  /** Whether a block waits of which `concerns` says so. */
  some(concerns: (units: number) => boolean): boolean {
    return this.#units.some((units, i) => i >= this.#head && concerns(units));
  }

  push(address: Address, units: number, tag: number): void {
    this.#addresses.push(address);
    this.#units.push(units);
    this.#tags.push(tag);
  }

  /** Removes up to `max` blocks that may be re-used at `epoch` and hands them to `free`. */
  drain(epoch: number, max: number, free: (address: Address, units: number) => void): number {
    let drained = 0;
    while (drained < max && this.length > 0 && this.#tags[this.#head] + EPOCHS_TO_RIPEN <= epoch) {
      free(this.#addresses[this.#head], this.#units[this.#head]);
      this.#head++;
      drained++;
    }
    if (this.#head > 4096 && this.#head * 2 > this.#addresses.length) this.#compact();
    return drained;
  }

  #compact(): void {
    this.#addresses = this.#addresses.slice(this.#head);
    this.#units = this.#units.slice(this.#head);
    this.#tags = this.#tags.slice(this.#head);
    this.#head = 0;
  }
}
