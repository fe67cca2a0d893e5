import { invariant, StepwellError } from '../../../errors.ts';
import { FLAG_TIMED } from '../../../records/layout.ts';
import { type Address, Batch, type Operation, readInteger, Scratch } from '../../../verbs/index.ts';
import { ALWAYS, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { refuses as refusesKey } from '../../substrates/claims/slot-operations.ts';
import { BODY_BYTES, PAIR, PAIR_STATE_BYTES } from '../protocol/geometry.ts';
import {
  decodeRequest,
  type HashReply,
  type HashRequest,
  headerOf,
  IF_SLOT,
  isRemoval,
  OP_WRITE,
  OUT_OF_MEMORY,
} from '../protocol/hash-messages.ts';
import { holderIn } from '../protocol/lease.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from '../protocol/log.ts';
import { postBodies, type Unanswered } from '../protocol/mailbox.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { loadSegments, reportLost, TableLost, tableStateIn } from '../protocol/pair-state.ts';
import { type NamedSlot, signatureOf, slotWord, vacated } from '../protocol/slot.ts';
import {
  countOfTurn,
  type Decision,
  isEmptyTurn,
  type RecordBlock,
  unitsOfRecord,
} from '../protocol/turn.ts';
import { isSame, type Word, wordIn } from '../protocol/word.ts';
import { Commit } from './commit.ts';
import { follows, KeyLookup, PostedRequest } from './key-lookup.ts';

/** Where a look puts what it reads: words of the pair at their own offsets, then the others. */
const ROWS_USED = PAIR_STATE_BYTES;
const TURN_AGAIN = ROWS_USED + 8;
/** The number of each row's last request, and behind these the last answered number of each row. */
const NUMBERS = TURN_AGAIN + 8;
/** While at most this many rows are in use, a look reads the requests too: 8 KiB. */
const ROWS_READ_WHOLE = 128;
/** An attempt fails when another server has had a turn, or when rows have come into use. */
export const ATTEMPTS_MAX = 10_000;

/** What a turn has answered. */
export interface TurnResult {
  answers: readonly Decision[];
  /** Whether it has released the lease. */
  released?: boolean;
  /** The generation of a lost table, which must be rebuilt before anything can be answered. */
  lost?: number;
  /** Another server decided first: nothing of this turn has happened. */
  isOvertaken?: boolean;
  /** What the last doorbell read, for the worker's next turn. */
  next?: Look | undefined;
}

const NOTHING: TurnResult = { answers: [] };
const OVERTAKEN: TurnResult = { answers: [], isOvertaken: true };

export interface TurnOptions {
  /** Releases the lease in the same doorbell when no request is left. */
  release: boolean;
  /** Most turns in a row. */
  turnsMax?: number;
  spare?: SpareBlock;
}

/**
 * A block for a turn that answers only the request of `row`. With it a client's own request can be
 * answered although the pool is full. The address is 0 once a turn has taken the block.
 */
export interface SpareBlock extends RecordBlock {
  readonly row: number;
}

/** What a turn begins with. The rest of what was read stays in the worker's memory. */
interface Look {
  /** The last turn, which is done. */
  turn: Word;
  committed: number;
  /** The generation of a table whose memory was lost. */
  lost: number | undefined;
  /** Whether this client still held the lease for turns after `turn` was read. */
  isHolder: boolean;
  /** Whether no server overtakes this client before it is fenced. */
  isAlone: boolean;
}

/**
 * Whether a request can be answered in one turn with an earlier one: both write, and their keys
 * have equal hashes. Only the last of such writes reaches the table (see commit.ts). So the server
 * could not see whether an earlier one has expired: a record that can expire gets a turn of its
 * own.
 */
function mayFollow(first: HashRequest, { operation, h1, h2, kind }: HashRequest): boolean {
  const areWrites = first.operation === OP_WRITE && operation === OP_WRITE;
  const mayExpire = (((first.kind | kind) >>> 24) & FLAG_TIMED) !== 0;
  return areWrites && !mayExpire && first.h1 === h1 && first.h2 === h2;
}

/** Runs turns, one after the other, in memory of its own. */
export class TurnWorker {
  readonly #pair: PairAccess;
  readonly #lookup: KeyLookup;
  readonly #batch = new Batch();
  readonly #commit: Commit;
  readonly #words: Scratch;
  readonly #bodies = new Scratch(ROWS_READ_WHOLE * BODY_BYTES);
  /** The requests of a turn. The objects are reused, and made when a turn first needs them. */
  readonly #posted: PostedRequest[] = [];
  /** Rows of the mailbox that the last look has read. */
  #rows = 0;

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.#lookup = new KeyLookup(pair);
    this.#commit = new Commit(pair);
    this.#words = new Scratch(NUMBERS + 16 * pair.geometry.hashMailbox.rows);
  }

  /** Runs one turn. The last one reads nothing ahead. */
  *turn(options: TurnOptions, begun: Look | undefined, isLast: boolean): Operation<TurnResult> {
    const look = begun ?? (yield* this.look());
    if (!look.isHolder) return OVERTAKEN;
    if (look.lost !== undefined) return { answers: [], lost: look.lost };
    const waiting = this.#waiting(look.turn);
    if (waiting.length === 0) return NOTHING;
    const { geometry } = this.#pair;
    const { spare } = options;
    const isMore = waiting.length > geometry.turnMax;
    let chosen = isMore ? waiting.slice(0, geometry.turnMax) : waiting;
    // A client that could not allocate its spare block has just found the pool full.
    const isFull =
      spare !== undefined && (geometry.isOwnRecord(spare.address) || this.#pair.wasJustFull);
    // A turn for the client's own request alone needs no block but the one that the client has.
    const isSpare = chosen.length === 1 && chosen[0].row === spare?.row && spare.address !== 0;
    let block: RecordBlock | undefined =
      isFull || isSpare
        ? spare
        : ((yield* this.#allocate(chosen.length)) ?? (yield* this.#allocate(geometry.turnMax)));
    if (block === undefined) this.#pair.noteFull();
    block ??= spare;
    if (block === spare) chosen = waiting.filter(({ row }) => row === spare?.row);
    if (block === undefined || chosen.length === 0) return NOTHING;
    try {
      return yield* this.#answer(look, chosen, waiting, block, options, isLast);
    } finally {
      if (block !== spare && block.address !== 0) {
        this.#pair.discard(block.address, block.units);
      }
    }
  }

  *#allocate(decisions: number): Operation<RecordBlock | undefined> {
    const units = unitsOfRecord(decisions);
    const address = yield* this.#pair.allocate(units);
    return address === undefined ? undefined : { address, units };
  }

  /** Answers the chosen requests. Once the pair owns the block, its address is 0. */
  *#answer(
    look: Look,
    chosen: readonly Unanswered[],
    waiting: readonly Unanswered[],
    block: RecordBlock,
    { release, spare }: TurnOptions,
    isLast: boolean,
  ): Operation<TurnResult> {
    const posted = yield* this.#take(look, chosen);
    if (posted === undefined) return OVERTAKEN;
    const decided = yield* this.#decide(posted, look.committed);
    if (decided.isOvertaken || decided.lost !== undefined) return decided;
    const { answers } = decided;
    const releases = release && answers.length === waiting.length;
    // A server process always goes on, a client only while its own request waits. If another server
    // has answered that, the client reads its reply.
    const isOwn = ({ row }: { row: number }) => row === spare?.row;
    const goesOn = spare === undefined || (waiting.some(isOwn) && !answers.some(isOwn));
    const looksAhead = goesOn && !isLast && !releases;
    const ahead = looksAhead ? (batch: Batch) => this.#postLook(batch) : undefined;
    const { address, units } = block;
    // Even a doorbell that fails may have decided the turn: then the pair owns the block.
    block.address = 0;
    const { isAlone, turn, committed } = look;
    const isDone = yield* this.#commit.run(
      { before: committed, decisions: answers },
      turn,
      { address, units },
      { releases, isAlone, ahead },
    );
    if (isDone === undefined) {
      block.address = address;
      return OVERTAKEN;
    }
    for (const { row, number, reply } of answers) this.#pair.replies.answer(row, number, reply);
    const next = looksAhead && isDone ? this.#seen() : undefined;
    return { answers, released: releases && isDone, next };
  }

  *#decide(posted: readonly PostedRequest[], committed: number): Operation<TurnResult> {
    try {
      yield* this.#lookup.read(posted);
    } catch (error) {
      if (!(error instanceof TableLost)) throw error;
      yield* reportLost(this.#pair.geometry, error.generation);
      return { answers: [], lost: error.generation };
    }
    const answers: Decision[] = [];
    let sequence = committed;
    for (const one of posted) {
      const { first } = one;
      if (first === one) this.#lookup.match(one);
      else if (!follows(one)) continue;
      const decision = yield* decide(this.#lookup, one, sequence + 1);
      if (decision === undefined) return OVERTAKEN;
      answers.push(decision);
      if (decision.event === 0) continue;
      sequence++;
      first.match = decision;
      first.version = decision.reply.version;
      first.isExpired = false;
    }
    return { answers };
  }

  /**
   * Reads log counters, table state, lease and mailbox; finishes a turn that another server has
   * decided. `done` is read first: while it does not change, the turn that is read next is either
   * that one or its only successor. All else is read later, so it is of this turn or of a later
   * one. If it is of a later one, the CAS of what is decided fails. The same holds for the lease: a
   * client that lost it decides nothing once its successor has finished a turn or posted an empty
   * one.
   */
  *look(): Operation<Look> {
    const { geometry } = this.#pair;
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      yield this.#postLook(this.#batch.clear());
      const { generation } = tableStateIn(this.#words, PAIR.table);
      if (generation !== geometry.generation) yield* loadSegments(geometry);
      const look = this.#seen();
      if (look) return look;
      const [turn, done] = [wordIn(this.#words, PAIR.turn), wordIn(this.#words, PAIR.done)];
      if (isSame(turn, done)) continue;
      if (isEmptyTurn(done, turn)) yield* this.#commit.skip(done, turn);
      else yield* this.#commit.repeat(done, turn);
    }
    throw new StepwellError('SW_CONTENTION', 'turns of the hash server are never done');
  }

  /** Reads requests after their numbers, and then the turn again: see `#take`. */
  #postLook(batch: Batch): Batch {
    const { geometry, rowsUsed: rows } = this.#pair;
    const { hashMailbox: mailbox } = geometry;
    this.#rows = rows;
    batch
      .read(geometry.base + PAIR.done, 8, this.#words, PAIR.done)
      .read(geometry.base + PAIR.turn, 8, this.#words, PAIR.turn)
      .read(geometry.base + PAIR.hashLease, 8, this.#words, PAIR.hashLease)
      .read(geometry.base + PAIR.begun, 24, this.#words, PAIR.begun)
      .read(mailbox.rowsUsed, 8, this.#words, ROWS_USED)
      .read(mailbox.request(0), 8 * rows, this.#words, NUMBERS)
      .read(mailbox.answered(0), 8 * rows, this.#words, NUMBERS + 8 * mailbox.rows);
    if (rows > ROWS_READ_WHOLE) return batch;
    return batch
      .read(mailbox.body(0), BODY_BYTES * rows, this.#bodies, 0)
      .read(geometry.base + PAIR.turn, 8, this.#words, TURN_AGAIN);
  }

  /** Undefined if the client must look again: at an unfinished turn, a new table, or more rows. */
  #seen(): Look | undefined {
    const { geometry, hashLease } = this.#pair;
    const used = geometry.hashMailbox.inTable(readInteger(this.#words, ROWS_USED));
    if (used > this.#rows) {
      this.#pair.rowsUsed = Math.max(this.#pair.rowsUsed, used);
      return undefined;
    }
    const turn = wordIn(this.#words, PAIR.turn);
    const { isLost, generation } = tableStateIn(this.#words, PAIR.table);
    if (!isSame(turn, wordIn(this.#words, PAIR.done)) || generation !== geometry.generation) {
      return undefined;
    }
    const committed = readInteger(this.#words, PAIR.committed);
    const holder = holderIn(this.#words, PAIR.hashLease);
    const isHolder = hashLease.isForTurns(holder);
    const isAlone = isHolder && !holder.yields;
    return { turn, committed, lost: isLost ? generation : undefined, isHolder, isAlone };
  }

  /**
   * The requests that wait. Each turn begins at another row. Otherwise clients in low rows that
   * keep asking for one bucket would starve the others.
   */
  #waiting(turn: Word): Unanswered[] {
    const { hashMailbox: mailbox } = this.#pair.geometry;
    const waiting: Unanswered[] = [];
    const first = countOfTurn(turn);
    for (let i = 0; i < this.#rows; i++) {
      const row = (first + i) % this.#rows;
      const number = readInteger(this.#words, NUMBERS + 8 * row);
      const answered = readInteger(this.#words, NUMBERS + 8 * (mailbox.rows + row));
      if (number !== answered) waiting.push({ row, number });
    }
    return waiting;
  }

  /**
   * Takes the requests of this turn: for each bucket the first one, and further writes of the same
   * key. Undefined if there was another turn meanwhile: an answered row can be written again, so a
   * body that was read may mix two requests.
   */
  *#take({ turn }: Look, chosen: readonly Unanswered[]): Operation<PostedRequest[] | undefined> {
    const isWhole = this.#rows <= ROWS_READ_WHOLE;
    if (!isWhole) {
      const { geometry } = this.#pair;
      const batch = postBodies(geometry.hashMailbox, chosen, this.#bodies, this.#batch.clear());
      yield batch.read(geometry.base + PAIR.turn, 8, this.#words, TURN_AGAIN);
    }
    if (!isSame(wordIn(this.#words, TURN_AGAIN), turn)) return undefined;
    const posted: PostedRequest[] = [];
    for (let i = 0; i < chosen.length; i++) {
      const request = decodeRequest(this.#bodies, (isWhole ? chosen[i].row : i) * BODY_BYTES);
      const bucket = this.#pair.geometry.bucketOf(request);
      const first = posted.find((one) => one.bucket === bucket);
      if (first && !mayFollow(first.request, request)) continue;
      this.#posted[posted.length] ??= new PostedRequest();
      const one = this.#posted[posted.length];
      one.begin(chosen[i], request, bucket, first);
      posted.push(one);
    }
    return posted;
  }
}

const NO_WORD: Word = { low: 0, high: 0 };
const NO_HEADER: readonly number[] = [];

/**
 * Decides a request. Its first one (`PostedRequest.first`) knows which slot has the key. A change
 * gets the number `sequence`. Undefined if another server has decided a turn meanwhile.
 */
function* decide(
  lookup: KeyLookup,
  posted: PostedRequest,
  sequence: number,
): Operation<Decision | undefined> {
  const { request, first } = posted;
  const { match, version } = first;
  if (refuses(request, first)) {
    return decisionOf(posted, replyOf(REFUSED, first.isExpired ? undefined : match, version, 0));
  }
  const record = slotWord(request.block, request.units, signatureOf(request.h2));
  // A slot without a length is empty.
  const isNamed = isRemoval(request.operation) || (request.units > 0 && request.block > 0);
  invariant(isNamed, 'a request is to store a record of no length');
  if (match === undefined) {
    const slot = yield* lookup.emptySlot(first);
    if (slot === 'full') return decisionOf(posted, replyOf(OUT_OF_MEMORY, match, version, 0));
    if (slot === 'overtaken') return undefined;
    const reply = replyOf(INSERTED, match, request.firstVersion, sequence);
    return decisionOf(posted, reply, LOG_INSERT, slot, record);
  }
  if (isRemoval(request.operation)) {
    const reply = replyOf(REPLACED, match, version, sequence);
    return decisionOf(posted, reply, LOG_DELETE, match.slot, vacated(sequence));
  }
  // A replacement's version is known only now: until now no client could read its header.
  const reply = replyOf(REPLACED, match, (version + 1) >>> 0, sequence);
  const header = headerOf(request, reply.version);
  return decisionOf(posted, reply, LOG_UPDATE, match.slot, record, header);
}

/** With event 0 nothing changes. */
function decisionOf(
  { row, number }: PostedRequest,
  reply: HashReply,
  event = 0,
  slot: Address = 0,
  { low, high }: Word = NO_WORD,
  header: readonly number[] = NO_HEADER,
): Decision {
  return { row, number, reply, event, slot, low, high, header };
}

function replyOf(
  outcome: HashReply['outcome'],
  match: NamedSlot | undefined,
  version: number,
  sequence: number,
): HashReply {
  return { outcome, version, oldLow: match?.low ?? 0, oldHigh: match?.high ?? 0, sequence };
}

/**
 * An expired record counts as absent, with two exceptions. A client that names the slot has judged
 * expiry itself. A removal deletes the record, and its client reports that there was none.
 */
function refuses(request: HashRequest, { match, version, isExpired }: PostedRequest): boolean {
  const { operation, condition, expectedVersion, slotLow, slotHigh } = request;
  if (condition === IF_SLOT) {
    const isExpected = match?.low === slotLow && match.high === slotHigh;
    return !isExpected || version !== expectedVersion;
  }
  const isThere = match !== undefined;
  if (isRemoval(operation) && condition === ALWAYS) return !isThere;
  const present = isThere && (isRemoval(operation) || !isExpired);
  return refusesKey(condition, expectedVersion, present, version);
}
