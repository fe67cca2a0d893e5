import { invariant } from '../../../errors.ts';
import {
  type Address,
  Batch,
  type Operation,
  readInteger,
  Scratch,
  writeInteger,
} from '../../../verbs/index.ts';
import {
  type MailboxGeometry,
  PAIR,
  PAIR_STATE_BYTES,
  type PairGeometry,
  REPLY_BYTES,
} from './geometry.ts';
import { decodeReply, type HashReply } from './hash-messages.ts';
import { holdingIn, type Lease } from './lease.ts';
import { type PairState, stateIn } from './pair-state.ts';
import { AWAIT_MICROSECONDS } from './waiting.ts';

/** How often an operation asks without news before it looks itself. */
const ASKED_WITHOUT_NEWS_MAX = 1000;

/** A request of this client that waits for its answer. */
export interface Ticket {
  readonly row: number;
  readonly number: number;
  reply: HashReply | undefined;
  /** The number of the last news that its operation knows, and how often it has asked since. */
  heard: number;
  asked: number;
  /** The last look that its operation has counted. */
  looks: number;
}

/**
 * The requests of one client that wait in a pair's mailbox. Their operations share looks: one
 * doorbell reads the answers for all of them. So no operation looks while another one does, or
 * before it has seen the result of the last look. Answers that an operation of this client gives as
 * the server need not be read from the pool. An operation that waits long without news looks
 * itself, because the one that it relies on may have been abandoned.
 */
export class Replies {
  readonly #mailbox: MailboxGeometry;
  readonly #base: number;
  /**
   * One row has one request at a time. A list, because deletions from a map cost a rebuild every
   * few writes.
   */
  readonly #waiting: Ticket[] = [];
  readonly #batch = new Batch();
  readonly #words = new Scratch(PAIR_STATE_BYTES);
  readonly #lease: Lease;
  /** Whether the last answer came from a server process of another client. */
  isServed = false;
  /** Whether a look is under way and uses `#batch` and `#words`. */
  #looking = false;
  /** Operations of this client that are the server. */
  serving = 0;
  /** Number of turns and looks of this client, and of looks alone. */
  #news = 0;
  #looks = 0;
  /** What the last look has read of the pair. */
  readonly #state = new Scratch(PAIR_STATE_BYTES);

  constructor({ base, hashMailbox }: PairGeometry, lease: Lease) {
    this.#lease = lease;
    this.#base = base;
    this.#mailbox = hashMailbox;
  }

  /** Notes a request that is about to be posted. */
  expect(row: number, number: number): Ticket {
    invariant(this.#in(row) === undefined, 'two requests of a client wait in one row');
    const heard = this.#news;
    const ticket: Ticket = { row, number, reply: undefined, heard, asked: 0, looks: this.#looks };
    this.#waiting.push(ticket);
    return ticket;
  }

  /** Call when the ticket's operation ends, by success or failure. */
  forget(ticket: Ticket): void {
    const at = this.#waiting.indexOf(ticket);
    invariant(at >= 0, 'an operation ends twice, or its request was never noted');
    const last = this.#waiting.pop() as Ticket;
    if (last !== ticket) this.#waiting[at] = last;
  }

  #in(row: number): Ticket | undefined {
    return this.#waiting.find((ticket) => ticket.row === row);
  }

  /** Call when this client, as the server, has written an answer to the pool. */
  answer(row: number, number: number, reply: HashReply): void {
    this.#news++;
    const ticket = this.#in(row);
    // A copy: the server's next turn reuses its decisions.
    if (ticket?.number === number) ticket.reply = { ...reply };
  }

  /** Whether the ticket's operation should look now, instead of waiting for others to do so. */
  mayLook(ticket: Ticket): boolean {
    if (ticket.looks !== this.#looks) return false;
    if (ticket.heard !== this.#news) ticket.asked = 0;
    ticket.heard = this.#news;
    const isBusy = this.#looking || this.serving > 0;
    if (isBusy && ++ticket.asked < ASKED_WITHOUT_NEWS_MAX) return false;
    ticket.asked = 0;
    return true;
  }

  /** The pair's state, if there was a look since the ticket's operation asked last. */
  newState(ticket: Ticket): PairState | undefined {
    if (ticket.looks === this.#looks) return undefined;
    ticket.looks = this.#looks;
    return stateIn(this.#state);
  }

  /**
   * Reads the pair's state and the answers to all that wait: one doorbell, behind the given verbs.
   * With a ticket, and if a server process answers, it first waits for the answer to that one.
   */
  *look(ticket?: Ticket, verbs?: Batch): Operation<void> {
    if (this.#looking) {
      return yield* this.#lookWith(new Batch(), new Scratch(PAIR_STATE_BYTES), ticket, verbs);
    }
    this.#looking = true;
    try {
      yield* this.#lookWith(this.#batch.clear(), this.#words, ticket, verbs);
    } finally {
      this.#looking = false;
    }
  }

  *#lookWith(
    batch: Batch,
    words: Scratch,
    ticket: Ticket | undefined,
    verbs: Batch | undefined,
  ): Operation<void> {
    const asked = this.#waiting.slice();
    if (asked.length > 1) asked.sort((a, b) => a.row - b.row);
    const repliesAt = PAIR_STATE_BYTES + 8 * asked.length;
    const lastAt = repliesAt + REPLY_BYTES * asked.length;
    words.ensure(lastAt + 8);
    if (verbs) batch.append(verbs);
    const awaits = ticket !== undefined && this.isServed;
    if (awaits) {
      writeInteger(words, lastAt, ticket.number - 1);
      const answered = this.#mailbox.answered(ticket.row);
      batch.awaitChange(answered, AWAIT_MICROSECONDS, words, lastAt);
    }
    batch.read(this.#base, PAIR_STATE_BYTES, words, 0);
    // The numbers before the replies: behind a number stands the reply to it, or a later one.
    postRuns(batch, asked, this.#mailbox.answered(0), 8, words, PAIR_STATE_BYTES);
    postRuns(batch, asked, this.#mailbox.reply(0), REPLY_BYTES, words, repliesAt);
    yield batch;
    this.#news++;
    this.#looks++;
    for (let i = 0; i < PAIR_STATE_BYTES >> 3; i++) this.#state.f64[i] = words.f64[i];
    const committed = readInteger(words, PAIR.committed);
    let answers = 0;
    for (let i = 0; i < asked.length; i++) {
      const one = asked[i];
      if (readInteger(words, PAIR_STATE_BYTES + 8 * i) !== one.number) continue;
      one.reply ??= decodeReply(words, repliesAt + REPLY_BYTES * i, committed);
      answers++;
    }
    if (!awaits && answers === 0) return;
    const { serves, client } = holdingIn(words, PAIR.hashLease);
    this.isServed = answers > 0 && serves && client !== this.#lease.own;
  }
}

/** Adds READs of a word or more for each ticket's row; neighbouring rows are read by one verb. */
function postRuns(
  batch: Batch,
  asked: readonly Ticket[],
  address: Address,
  bytes: number,
  words: Scratch,
  at: number,
): void {
  for (let first = 0, end = 1; first < asked.length; first = end++) {
    const { row } = asked[first];
    while (end < asked.length && asked[end].row === row + end - first) end++;
    batch.read(address + bytes * row, bytes * (end - first), words, at + bytes * first);
  }
}
