import { StepwellError } from '../../errors.ts';
import type { PartOrder } from './parts.ts';
import { partOf } from './sample.ts';

/** Parts of positions from 0 on, where no key ever changes its position: that is the cursor. */
export class RangeOrder implements PartOrder {
  position: number;
  /** Where the part that was read ends. */
  next: number;
  readonly end: number;
  readonly #step: number;
  readonly #period: number;

  /**
   * Parts begin at multiples of `step`, counted anew in each `period`. Raises SW_INVALID_ARGUMENT
   * for what is no cursor.
   */
  constructor(end: number, step: number, cursor = 0, period = end) {
    this.end = end;
    this.#step = step;
    this.#period = period;
    this.position = cursor;
    this.next = cursor;
    const isPosition = Number.isSafeInteger(cursor) && cursor >= 0 && cursor < end;
    if (isPosition && this.#beginOf(cursor) === cursor) return;
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
  }

  get done(): boolean {
    return this.position >= this.end;
  }

  get cursor(): number {
    return this.done ? 0 : this.position;
  }

  pass(): void {
    this.position = this.next;
  }

  seek(place: number): void {
    this.position = this.#beginOf(partOf(place, this.end).part);
  }

  #beginOf(position: number): number {
    return position - ((position % this.#period) % this.#step);
  }
}
