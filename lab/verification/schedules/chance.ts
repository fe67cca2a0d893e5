import type { Prng } from '../../../src/random/prng.ts';
import type { Batch } from '../../../src/verbs/index.ts';
import { type AdversaryFabric, Execution, WHOLE, WORD } from './adversary.ts';

const LINE = 64;
/** Longer READs and WRITEs (tables) are mostly cut into whole lines, to keep schedules short. */
const MOSTLY_LINES_BYTES = 256;

/** Cuts a batch into random pieces, and runs them in a random order that the contract allows. */
export class RandomExecution {
  readonly #execution: Execution;
  readonly #prng: Prng;

  constructor(fabric: AdversaryFabric, batch: Batch, prng: Prng) {
    this.#prng = prng;
    this.#execution = new Execution(fabric, batch, (bytes) => pieceBytes(bytes, prng));
  }

  get finished(): boolean {
    return this.#execution.finished;
  }

  /** Whether any piece of the batch has been executed. */
  begun = false;

  get paused(): boolean {
    return this.#execution.paused;
  }

  /** Executes one piece. */
  step(): void {
    this.begun = true;
    const rows = this.#execution.openRows();
    const row = rows.length === 1 ? rows[0] : rows[this.#prng.below(rows.length)];
    this.#execution.perform(row, this.#prng.below(this.#execution.pieces(row).length >> 1));
  }
}

function pieceBytes(bytes: number, prng: Prng): number {
  const draw = prng.below(100);
  if (bytes > MOSTLY_LINES_BYTES) return draw < 5 ? WORD : draw < 60 ? LINE : WHOLE;
  return draw < 60 ? WORD : draw < 75 ? LINE : WHOLE;
}
