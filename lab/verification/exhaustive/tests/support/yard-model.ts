import {
  type Batch,
  CAS,
  FAA,
  type Operation,
  PAUSE,
  READ,
  WRITE,
} from '../../../../../src/verbs/index.ts';
import { type AdversaryFabric, Execution, WORD } from '../../../schedules/adversary.ts';
import { newYardMemory, type Worker, Yard } from '../../../tests/support/yard.ts';
import type { Model } from '../../explorer.ts';
import { LOAD, STORE, type Step, type StepId } from '../../trace.ts';

const LINE = 64;
/** Names of steps: client, batch, row and piece as digits. */
const BATCHES = 4096;
const ROWS = 256;
const PIECES = 4096;
const CLIENT = BATCHES * ROWS * PIECES;

const pieceBytes = (bytes: number) => (bytes < LINE ? WORD : LINE);

/** The operation that one client of a yard runs, within the epoch that it has announced. */
export type YardPart = (worker: Worker, yard: Yard) => Operation<void>;

/** The client dies after so many verbs that changed something. */
export interface YardCrash {
  client: number;
  after: number;
}

/**
 * Clients that claim, free and recycle blocks of one chunk, each within one epoch. The yard's audit
 * then adds epochs, recovery and a sweep.
 */
export class YardModel implements Model {
  readonly #memory = newYardMemory();
  readonly #parts: readonly YardPart[];
  readonly #begin: (yard: Yard) => Worker[];
  readonly #crash: YardCrash | undefined;
  #yard = new Yard(this.#memory);
  #actors: Actor[] = [];
  #words: number[] = [];
  #kinds: number[] = [];
  readonly cut = false;
  /** Executions in which the crash happened. */
  crashes = 0;

  constructor(parts: readonly YardPart[], begin: (yard: Yard) => Worker[], crash?: YardCrash) {
    this.#parts = parts;
    this.#begin = begin;
    this.#crash = crash;
  }

  begin(): void {
    this.#yard = new Yard(this.#memory);
    const workers = this.#begin(this.#yard);
    this.#actors = this.#parts.map((part, i) => {
      const after = this.#crash?.client === i ? this.#crash.after : Number.POSITIVE_INFINITY;
      return new Actor(i, workers[i], part(workers[i], this.#yard), after);
    });
    this.#memory.observer = {
      onAccess: (_, kind, address, words) => {
        for (let i = 0; i < words; i++) {
          this.#words.push(address / WORD + i);
          this.#kinds.push(kind === READ ? LOAD : STORE);
        }
      },
    };
  }

  enabled(): readonly StepId[] {
    return this.#actors.flatMap((actor) => actor.enabled());
  }

  perform(id: StepId): Step {
    this.#words = [];
    this.#kinds = [];
    const after = this.#actors[Math.floor(id / CLIENT)].perform(id);
    return { after, words: this.#words, kinds: this.#kinds };
  }

  verdict(): string | undefined {
    this.#memory.observer = undefined;
    if (this.#actors.some(({ worker }) => worker.dead)) this.crashes++;
    try {
      this.#yard.audit('afterwards');
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }
}

/** A client that advances verb by verb. */
class Actor {
  readonly worker: Worker;
  readonly #number: number;
  readonly #operation: Operation<void>;
  readonly #diesAfter: number;
  #execution: Execution | undefined;
  #batch: Batch | undefined;
  #batches = 0;
  #changes = 0;
  #over = false;
  /** By row: the steps of the batch under way that have happened. */
  #steps: number[][] = [];
  #posted: number | undefined;

  constructor(number: number, worker: Worker, operation: Operation<void>, diesAfter: number) {
    this.#number = number;
    this.worker = worker;
    this.#operation = operation;
    this.#diesAfter = diesAfter;
  }

  #name(row: number, piece: number): StepId {
    return ((this.#number * BATCHES + this.#batches) * ROWS + row) * PIECES + piece;
  }

  enabled(): StepId[] {
    if (this.worker.dead) return [];
    const execution = this.#execution;
    if (execution === undefined || execution.finished) return this.#over ? [] : [this.#name(0, 0)];
    const rows = execution.openRows();
    // A client that may die executes its verbs in order: the rest must not depend on chance.
    if (this.#diesAfter !== Number.POSITIVE_INFINITY) rows.length = 1;
    return rows.flatMap((row) => {
      const starts = execution.pieces(row).filter((_, i) => i % 2 === 0);
      return starts.map((start) => this.#name(row + 1, Math.floor(start / WORD)));
    });
  }

  perform(name: StepId): StepId[] {
    const row = (Math.floor(name / PIECES) % ROWS) - 1;
    return row < 0 ? this.#post(name) : this.#performPiece(name, row);
  }

  #post(name: StepId): StepId[] {
    const after = this.#steps.flat();
    if (after.length === 0 && this.#posted !== undefined) after.push(this.#posted);
    this.#batches++;
    const { done, value } = this.#operation.next();
    this.#over = done === true;
    this.#batch = done ? undefined : value;
    const fabric = this.worker.pool.fabric as AdversaryFabric;
    this.#execution = done ? undefined : new Execution(fabric, value, pieceBytes);
    this.#posted = name;
    this.#steps = [];
    return after;
  }

  #performPiece(name: StepId, row: number): StepId[] {
    const execution = this.#execution as Execution;
    const { kind } = this.#batch as Batch;
    const starts = execution.pieces(row).filter((_, i) => i % 2 === 0);
    const after = this.#before(row);
    execution.perform(
      row,
      starts.findIndex((at) => Math.floor(at / WORD) === name % PIECES),
    );
    this.#steps[row] ??= [];
    this.#steps[row].push(name);
    const changes = kind[row] === WRITE || kind[row] === CAS || kind[row] === FAA;
    if (changes && execution.pieces(row).length === 0 && ++this.#changes >= this.#diesAfter) {
      this.worker.dead = true;
    }
    return after;
  }

  /** The verbs of the batch that are ordered before a row: for a WRITE only WRITEs. */
  #before(row: number): StepId[] {
    const { kind } = this.#batch as Batch;
    const isMortal = this.#diesAfter !== Number.POSITIVE_INFINITY;
    const after = this.#posted === undefined ? [] : [this.#posted];
    for (let earlier = 0; earlier < row; earlier++) {
      const isOvertaken = kind[row] === WRITE && kind[earlier] !== WRITE && !isMortal;
      if (!isOvertaken || kind[earlier] === PAUSE) after.push(...(this.#steps[earlier] ?? []));
    }
    return after;
  }
}
