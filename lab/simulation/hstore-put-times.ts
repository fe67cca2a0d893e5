import type { PairGeometry } from '../../src/indexes/hstore/protocol/geometry.ts';
import { PAIR } from '../../src/indexes/hstore/protocol/geometry.ts';
import {
  type Address,
  type Batch,
  CAS,
  type Operation,
  READ,
  WRITE,
} from '../../src/verbs/index.ts';

/** When a turn of a hash server had read what it answers, had decided it, and was being done. */
interface Turn {
  begun: number;
  /** Its READs are done, and what it decides is posted. */
  decides: number;
  /** It is decided; table, log and replies are posted. */
  does: number;
  done: number;
  answers: number;
}

/** Nanoseconds of all PUTs together, by what they are spent on (Figure 9). */
export interface PutPhases {
  /** Until record and request stand in the pool. */
  request: number;
  /** From then on until the turn begins that takes the request. */
  queueWait: number;
  indexOperation: number;
  /** The turn's record is written, and it is decided by a CAS. */
  decision: number;
  /** Log, table and replies are written. */
  changes: number;
  /** Until the client has seen its answer. */
  answer: number;
  /** Time of the turns that other requests of the same turn account for, if all cost the same. */
  forOthers: number;
}

/**
 * Follows PUTs and the turns that answer them by the words of the mailboxes that both write: the
 * number of a request, and the number that was answered.
 */
export class PutTimes {
  readonly phases: PutPhases = {
    request: 0,
    queueWait: 0,
    indexOperation: 0,
    decision: 0,
    changes: 0,
    answer: 0,
    forOthers: 0,
  };
  readonly #now: () => number;
  readonly #awaitedSince: ReadonlyMap<Address, number>;
  readonly #pairs: readonly PairGeometry[];
  /** By the word that says what was answered: the turn that wrote it last. */
  readonly #turns = new Map<Address, Turn | undefined>();

  /** `awaitedSince`: when a client began to wait for a change of each word. */
  constructor(
    pairs: readonly PairGeometry[],
    now: () => number,
    awaitedSince: ReadonlyMap<Address, number>,
  ) {
    this.#pairs = pairs;
    this.#now = now;
    this.#awaitedSince = awaitedSince;
  }

  /** Runs a PUT and adds up what it has spent its time on. */
  *put<T>(operation: Operation<T>): Operation<T> {
    const began = this.#now();
    let answered: Address | undefined;
    let written = began;
    let step = operation.next();
    while (!step.done) {
      const row = answered === undefined ? this.#answeredOf(step.value) : undefined;
      if (row !== undefined) this.#turns.set(row, undefined);
      yield step.value;
      answered ??= row;
      if (row !== undefined) {
        const since = this.#awaitedSince.get(row) ?? 0;
        written = since > began ? since : this.#now();
      }
      step = operation.next();
    }
    const turn = answered === undefined ? undefined : this.#turns.get(answered);
    if (turn) this.#add(began, written, turn);
    if (answered !== undefined) this.#turns.delete(answered);
    return step.value;
  }

  /** Runs a round of a hash server and notes its turns. */
  *serve<T>(round: Operation<T>): Operation<T> {
    let turn = newTurn(this.#now());
    let step = round.next();
    while (!step.done) {
      const batch = step.value;
      const answers = this.#answersOf(batch);
      const looks = this.#touchesTurn(batch, READ);
      if (this.#touchesTurn(batch, CAS)) turn.decides = this.#now();
      if (answers.length > 0) {
        turn.does = this.#now();
        turn.answers = answers.length;
      }
      for (const row of answers) this.#turns.set(row, turn);
      yield batch;
      if (answers.length > 0) turn.done = this.#now();
      // A turn begins with the READ of its mailbox, even if the previous turn posts that READ.
      if (looks) turn = newTurn(this.#now());
      step = round.next();
    }
    return step.value;
  }

  #add(began: number, written: number, turn: Turn): void {
    const ended = this.#now();
    const { phases } = this;
    // A turn may see a request before its client hears that it is written, and an answer may be
    // seen before the turn's doorbell has ended.
    const at = [turn.begun, turn.decides, turn.does, turn.done].map((time) =>
      Math.min(ended, Math.max(began, time)),
    );
    const posted = Math.min(written, at[0]);
    phases.request += posted - began;
    phases.queueWait += at[0] - posted;
    phases.indexOperation += at[1] - at[0];
    phases.decision += at[2] - at[1];
    phases.changes += at[3] - at[2];
    phases.answer += ended - at[3];
    phases.forOthers += (at[3] - at[0]) * (1 - 1 / turn.answers);
  }

  /** If the batch posts a request: the word that will say that it is answered. */
  #answeredOf(batch: Batch): Address | undefined {
    for (let row = 0; row < batch.length; row++) {
      if (batch.kind[row] !== WRITE || batch.bytes[row] !== 8) continue;
      for (const { hashMailbox: mailbox } of this.#pairs) {
        const at = batch.address[row] - mailbox.request(0);
        if (at >= 0 && at < 8 * mailbox.rows) return mailbox.answered(at / 8);
      }
    }
    return undefined;
  }

  /** Which requests that wait a batch answers. */
  #answersOf(batch: Batch): Address[] {
    const answered: Address[] = [];
    for (let row = 0; row < batch.length; row++) {
      if (batch.kind[row] !== CAS && batch.kind[row] !== WRITE) continue;
      if (this.#turns.has(batch.address[row])) answered.push(batch.address[row]);
    }
    return answered;
  }

  #touchesTurn(batch: Batch, kind: number): boolean {
    for (let row = 0; row < batch.length; row++) {
      if (batch.kind[row] !== kind) continue;
      if (this.#pairs.some(({ base }) => batch.address[row] === base + PAIR.turn)) return true;
    }
    return false;
  }
}

function newTurn(begun: number): Turn {
  const never = Number.POSITIVE_INFINITY;
  return { begun, decides: never, does: never, done: never, answers: 0 };
}
