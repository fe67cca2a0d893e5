import { invariant } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { LOG_UPDATE, readLog } from '../protocol/log.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import type { NamedSlot } from '../protocol/slot.ts';

/** What the entries of a slot come to, one after the other. */
export interface Folded extends NamedSlot {
  /** Whether the slot has lost the key that it had before, if it had one. */
  rekeyed: boolean;
}

/** What the log has said since a sequence: each slot's last word, and whether its key changed. */
export class FoldedLog {
  readonly #pair: PairAccess;
  readonly #bySlot = new Map<Address, Folded>();
  /** Up to here it was read. */
  #sequence: number;

  constructor(pair: PairAccess, from: number) {
    this.#pair = pair;
    this.#sequence = from;
  }

  get changes(): Folded[] {
    return [...this.#bySlot.values()];
  }

  /** Reads on to a committed sequence; false when newer entries overwrote what is missing. */
  *follow(target: number): Operation<boolean> {
    if (target <= this.#sequence) return true;
    const entries = yield* readLog(this.#pair, this.#sequence, target);
    if (entries === undefined) return false;
    for (const { sequence, event, slot, low, high } of entries) {
      invariant(sequence === this.#sequence + 1, 'an entry of the log is not where it belongs');
      this.#sequence = sequence;
      const rekeyed = event !== LOG_UPDATE || (this.#bySlot.get(slot)?.rekeyed ?? false);
      this.#bySlot.set(slot, { slot, low, high, rekeyed });
    }
    return true;
  }
}
