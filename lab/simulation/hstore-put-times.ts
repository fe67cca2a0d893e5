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

/** Times of a turn, which is a hash server's round: all requests that it answers together. */
interface Turn {
  begun: number;
  /** When it has read everything, and posts the CAS that decides the turn. */
  decides: number;
  /** When it is decided, and posts the writes of table, log and replies. */
  does: number;
  done: number;
  answers: number;
}

/** Nanoseconds that all PUTs together spent in each phase (Figure 9). */
export interface PutPhases {
  /** Until the record and the request are written. */
  request: number;
  /** From then until the turn that answers the request begins. */
  queueWait: number;
  indexOperation: number;
  /** The turn writes its record and decides itself with a CAS. */
  decision: number;
  /** The turn writes log, table and replies. */
  changes: number;
  /** From then until the client sees the answer. */
  answer: number;
  /** The part of a turn's time that its other requests account for, if all cost the same. */
  forOthers: number;
}

/**
 * Matches PUTs with the turns that answer them, through two words of the mailbox: the number of a
 * row's latest request, which the client writes, and that of its latest answer, which a turn
 * writes.
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
  /** By the word with the answered number: the turn that last wrote it. */
  readonly #turns = new Map<Address, Turn | undefined>();

  /** `awaitedSince`: by word, when a client began to wait for it to change. */
  constructor(
    pairs: readonly PairGeometry[],
    now: () => number,
    awaitedSince: ReadonlyMap<Address, number>,
  ) {
    this.#pairs = pairs;
    this.#now = now;
    this.#awaitedSince = awaitedSince;
  }

  /** Runs a PUT and adds its times to `phases`. */
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

  /** Runs a hash server's round and records its turns. */
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
    // A turn may see a request before the client learns that its WRITE is done, and the client may
    // see an answer before the turn's batch has ended. So clamp the times.
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

  /** The word that will hold the answered number, if the batch posts a request. */
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

  /** The answered words of the pending requests that a batch answers. */
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
