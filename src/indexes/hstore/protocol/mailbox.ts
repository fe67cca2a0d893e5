import { invariant, StepwellError } from '../../../errors.ts';
import { clientWord, GoneClients } from '../../../pool/clients/client-word.ts';
import type { Membership } from '../../../pool/clients/membership.ts';
import { control } from '../../../pool/control.ts';
import { Batch, type Operation, readInteger, Scratch } from '../../../verbs/index.ts';
import { BODY_BYTES, type MailboxGeometry } from './geometry.ts';
import { PATIENCE, pauseAfter } from './waiting.ts';

/** How many rows a client may own, and so how many of its requests can wait at once. */
const OWN_ROWS_MAX = 64;

/** A request that is not answered. */
export interface Unanswered {
  row: number;
  number: number;
}

/** The rows of a mailbox whose last request is not answered, and their owners. */
export function* readUnanswered(
  geometry: MailboxGeometry,
): Operation<(Unanswered & { owner: number })[]> {
  const used = new Scratch(8);
  yield new Batch().read(geometry.rowsUsed, 8, used, 0);
  const rows = geometry.inTable(readInteger(used, 0));
  if (rows === 0) return [];
  const words = new Scratch(24 * rows);
  yield new Batch()
    .read(geometry.request(0), 8 * rows, words, 0)
    .read(geometry.answered(0), 8 * rows, words, 8 * rows)
    .read(geometry.owner(0), 8 * rows, words, 16 * rows);
  const unanswered: (Unanswered & { owner: number })[] = [];
  for (let row = 0; row < rows; row++) {
    const number = readInteger(words, 8 * row);
    if (number === readInteger(words, 8 * (rows + row))) continue;
    unanswered.push({ row, number, owner: readInteger(words, 8 * (2 * rows + row)) });
  }
  return unanswered;
}

/** Adds the READs of the requests in these rows: one behind the other from the beginning. */
export function postBodies(
  geometry: MailboxGeometry,
  rows: { readonly length: number; at(i: number): Unanswered | undefined },
  bodies: Scratch,
  batch: Batch,
): Batch {
  bodies.ensure(BODY_BYTES * rows.length);
  for (let i = 0; i < rows.length; i++) {
    const { row } = rows.at(i) as Unanswered;
    batch.read(geometry.body(row), BODY_BYTES, bodies, BODY_BYTES * i);
  }
  return batch;
}

/** The requests in these rows. */
export function* readBodies<T>(
  geometry: MailboxGeometry,
  rows: readonly Unanswered[],
  decode: (words: Scratch, at: number) => T,
): Operation<T[]> {
  const bodies = new Scratch(BODY_BYTES * rows.length);
  if (rows.length > 0) yield postBodies(geometry, rows, bodies, new Batch());
  return rows.map((_, i) => decode(bodies, BODY_BYTES * i));
}

/**
 * The client's end of a mailbox: two-sided messages made of verbs. So they run on every fabric,
 * also for synchronous calls, and a request survives its server.
 *
 * A row has one owner, a request and a reply. A request's number is written after its body, the
 * answered number after the reply. So a reader that reads the number first has content of that
 * number or a later one. The next server answers an unanswered request, and no server answers one
 * twice: rows are the reply cache.
 */
export class Mailbox {
  readonly geometry: MailboxGeometry;
  readonly #membership: Membership;
  /** Own rows that no request uses, and the number of the last request of each own row. */
  readonly #free: number[] = [];
  readonly #last = new Map<number, number>();
  /** Own rows whose last request was given up (SW_TIMEOUT) before it was answered. */
  readonly #givenUp: number[] = [];
  /** Rows from here on are kept for clients that have no row yet: one for each possible client. */
  readonly #firstKept: number;
  #claiming = false;

  /** With no fewer rows than clients, each client gets at least one. */
  constructor(geometry: MailboxGeometry, membership: Membership) {
    this.geometry = geometry;
    this.#membership = membership;
    this.#firstKept = Math.max(0, geometry.rows - membership.clientsMax);
  }

  /** A row for one request. Raises SW_CONTENTION when none comes free in time. */
  *take(waitsMax = PATIENCE.waitsMax): Operation<number> {
    for (let waits = 0; waits < waitsMax; waits++) {
      const row = this.#free.pop() ?? (yield* this.#takeBack()) ?? (yield* this.#claim());
      if (row !== undefined) return row;
      yield* control.pause(pauseAfter(waits, PATIENCE));
    }
    const late = `, ${this.#givenUp.length} of them by requests that were not answered in time`;
    throw new StepwellError('SW_CONTENTION', `every row of the mailbox is taken${late}`);
  }

  give(row: number): void {
    this.#free.push(row);
  }

  /** Keeps apart the row of a request that may still be answered, although no operation waits. */
  giveUp(row: number): void {
    this.#givenUp.push(row);
  }

  /**
   * Takes back a row whose request was answered after all. From then on only this client writes to
   * it: a server that repeats a turn, or is late, CASes from the row's old words. A sweep frees the
   * blocks that the request named and replaced.
   */
  *#takeBack(): Operation<number | undefined> {
    // No interleaved operation checks these rows meanwhile. An error puts them back.
    let late = this.#givenUp.splice(0);
    if (late.length === 0) return undefined;
    try {
      const words = new Scratch(8 * late.length);
      const batch = new Batch();
      for (const [i, row] of late.entries()) {
        batch.read(this.geometry.answered(row), 8, words, 8 * i);
      }
      yield batch;
      const answered = late.filter((row, i) => readInteger(words, 8 * i) === this.#last.get(row));
      late = late.filter((row) => !answered.includes(row));
      this.#free.push(...answered);
    } finally {
      this.#givenUp.push(...late);
    }
    return this.#free.pop();
  }

  /** The number of the row's next request. */
  nextNumber(row: number): number {
    const last = this.#last.get(row);
    invariant(last !== undefined, 'a request goes into a row of another client');
    this.#last.set(row, last + 1);
    return last + 1;
  }

  /** Only one operation at a time claims a row, so that the limit for one client holds. */
  *#claim(): Operation<number | undefined> {
    if (this.#claiming || this.#last.size >= OWN_ROWS_MAX) return undefined;
    this.#claiming = true;
    try {
      return yield* this.#claimLowest();
    } finally {
      this.#claiming = false;
    }
  }

  /** Takes the lowest row that is free, or whose owner is gone and has nothing waiting. */
  *#claimLowest(): Operation<number | undefined> {
    const { geometry } = this;
    const { rows } = geometry;
    const owners = new Scratch(8 * rows);
    yield new Batch().read(geometry.owner(0), 8 * rows, owners, 0);
    const end = this.#last.size === 0 ? rows : this.#firstKept;
    const own = clientWord(this.#membership);
    const gone = new GoneClients(this.#membership);
    for (let row = 0; row < end; row++) {
      const owner = readInteger(owners, 8 * row);
      if (this.#last.has(row) || owner === own) continue;
      if (owner !== 0 && !(yield* gone.has(owner))) continue;
      // Read only now that the owner posts no more. An earlier READ could miss its last request,
      // whose answer would be mistaken for the answer to this client's first one.
      const last = yield* this.#lastAnswered(row);
      if (last === undefined) continue;
      if (!(yield* control.swap(geometry.owner(row), BigInt(owner), BigInt(own)))) continue;
      this.#last.set(row, last);
      yield* this.#raiseRowsUsed(row + 1);
      return row;
    }
    return undefined;
  }

  /** The number of the row's last request, if it has been answered. */
  *#lastAnswered(row: number): Operation<number | undefined> {
    const words = new Scratch(16);
    yield new Batch()
      .read(this.geometry.request(row), 8, words, 0)
      .read(this.geometry.answered(row), 8, words, 8);
    const last = readInteger(words, 0);
    return last === readInteger(words, 8) ? last : undefined;
  }

  /** Before the first request of the row: servers look no further than this. */
  *#raiseRowsUsed(rows: number): Operation<void> {
    for (;;) {
      const used = yield* control.load(this.geometry.rowsUsed);
      if (this.geometry.inTable(Number(used)) >= rows) return;
      yield* control.swap(this.geometry.rowsUsed, used, BigInt(rows));
    }
  }
}
