import { invariant } from '../../errors.ts';
import type { Address } from '../../verbs/index.ts';

/**
 * A block waits this many epochs between being unlinked and being used again. Its tag is the epoch
 * that this client had announced when it unlinked the block. While a client announces an epoch, the
 * global epoch is that one or the next, because the client checks it again after announcing. So
 * every client that may hold the block's address has announced at most tag + 1. The epoch cannot
 * reach tag + 3 before all of them have announced a later one.
 */
export const EPOCHS_TO_RIPEN = 3;

/** Address, units and tag of a block. */
const FIELDS = 3;
const UNITS = 1;
const TAG = 2;
const BLOCKS_AT_FIRST = 64;

/**
 * The blocks that this client unlinked and other clients may still read, oldest first. A block is
 * ripe when it may be used again. A ring of numbers holds them, because every update retires a
 * block and must not allocate an object for it.
 */
export class Limbo {
  #ring = new Float64Array(FIELDS * BLOCKS_AT_FIRST);
  #head = 0;
  #lastTag = 0;
  length = 0;

  /** The oldest tag, or 0 when empty: what the client publishes as its limbo floor. */
  get floor(): number {
    return this.length === 0 ? 0 : this.#ring[this.#at(0) + TAG];
  }

  /** Whether all blocks may be used again at `epoch`, judged by the youngest one. */
  isRipe(epoch: number): boolean {
    return this.length === 0 || this.#isRipeAt(this.#at(this.length - 1), epoch);
  }

  /** The addresses of all waiting blocks. */
  addresses(): Address[] {
    return Array.from({ length: this.length }, (_, i) => this.#ring[this.#at(i)]);
  }

  /** Whether any waiting block has a size that `concerns` accepts. */
  some(concerns: (units: number) => boolean): boolean {
    for (let i = 0; i < this.length; i++) {
      if (concerns(this.#ring[this.#at(i) + UNITS])) return true;
    }
    return false;
  }

  /** How many waiting blocks have this size. */
  count(units: number): number {
    let count = 0;
    for (let i = 0; i < this.length; i++) if (this.#ring[this.#at(i) + UNITS] === units) count++;
    return count;
  }

  push(address: Address, units: number, tag: number): void {
    // `floor` and `drain` rely on the oldest block having the lowest tag.
    invariant(tag >= this.#lastTag, 'a block is retired in an earlier epoch than the last one');
    this.#lastTag = tag;
    if (FIELDS * this.length === this.#ring.length) this.#grow();
    const at = this.#at(this.length++);
    this.#ring[at] = address;
    this.#ring[at + UNITS] = units;
    this.#ring[at + TAG] = tag;
  }

  /** Removes up to `max` blocks that may be reused at `epoch`, and passes them to `free`. */
  drain(epoch: number, max: number, free: (address: Address, units: number) => void): number {
    let drained = 0;
    while (drained < max && this.length > 0 && this.#isRipeAt(this.#at(0), epoch)) {
      const at = this.#at(0);
      free(this.#ring[at], this.#ring[at + UNITS]);
      this.#head = (this.#head + FIELDS) % this.#ring.length;
      this.length--;
      drained++;
    }
    return drained;
  }

  /** Index in the ring of the i-th oldest block. */
  #at(i: number): number {
    const at = this.#head + FIELDS * i;
    return at < this.#ring.length ? at : at - this.#ring.length;
  }

  #isRipeAt(at: number, epoch: number): boolean {
    return this.#ring[at + TAG] + EPOCHS_TO_RIPEN <= epoch;
  }

  #grow(): void {
    const larger = new Float64Array(2 * this.#ring.length);
    larger.set(this.#ring.subarray(this.#head));
    larger.set(this.#ring.subarray(0, this.#head), this.#ring.length - this.#head);
    this.#ring = larger;
    this.#head = 0;
  }
}
