import type { Address } from '../../verbs/index.ts';
import type { KeyAt } from './mend.ts';

/** Removals in one leaf, in flight together, from which on the leaf is looked at. */
const TOGETHER_MIN = 2;
/** Leaves that are remembered for removals that are still in flight. */
const LEAVES_MAX = 64;

/**
 * The removals of one client that are in flight together, as those of `clear` and `deleteMany` are.
 * Each has read its neighbourhood before the others emptied theirs, so that none of them sees that
 * the leaf became under-full. The last one to end looks at the leaves of all of them.
 */
export class Removals {
  #inFlight = 0;
  readonly #leaves = new Map<Address, { count: number; key: KeyAt }>();

  begin(): void {
    this.#inFlight++;
  }

  /** The removal has ended, however it did. */
  end(): void {
    this.#inFlight--;
  }

  /** Whether no other removal was in flight while this one, which has ended, was. */
  get wasAlone(): boolean {
    return this.#inFlight === 0 && this.#leaves.size === 0;
  }

  /** Remembers that the key was removed from a leaf. */
  note(leaf: Address, { u8, at, bytes }: KeyAt): void {
    const noted = this.#leaves.get(leaf);
    if (noted !== undefined) noted.count++;
    else this.#leaves.set(leaf, { count: 1, key: { u8: u8.slice(at, at + bytes), at: 0, bytes } });
  }

  /** A key of each leaf to look at now: none while removals are in flight, but for too many. */
  due(): KeyAt[] {
    if (this.#inFlight > 0 && this.#leaves.size < LEAVES_MAX) return [];
    const noted = [...this.#leaves.values()];
    this.#leaves.clear();
    return noted.filter(({ count }) => count >= TOGETHER_MIN).map(({ key }) => key);
  }
}
