import { invariant } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { LOG_DELETE, LOG_INSERT, type LogEntry } from './log.ts';
import type { LogReader } from './log-reader.ts';
import type { Folded } from './skiplist-image.ts';

/** What the log has said since a sequence: each slot's last word, and whether its key changed. */
export class FoldedLog {
  readonly #log: LogReader;
  readonly #bySlot = new Map<Address, Folded>();
  /** Up to here it was read. */
  sequence: number;

  constructor(log: LogReader, from: number) {
    this.#log = log;
    this.sequence = from;
  }

  get changes(): Folded[] {
    return [...this.#bySlot.values()];
  }

  /** Reads on to a committed sequence; false when newer entries overwrote what is missing. */
  *follow(target: number): Operation<boolean> {
    if (target <= this.sequence) return true;
    const entries = yield* this.#log.read(this.sequence, target);
    if (entries === undefined) return false;
    for (const entry of entries) this.#fold(entry);
    return true;
  }

  #fold({ sequence, event, slot, low, high }: LogEntry): void {
    invariant(sequence === this.sequence + 1, 'an entry of the log is not where it belongs');
    this.sequence = sequence;
    const earlier = this.#bySlot.get(slot);
    const rekeyed = event === LOG_DELETE || event === LOG_INSERT || (earlier?.rekeyed ?? false);
    this.#bySlot.set(slot, { slot, low, high, rekeyed });
  }
}
