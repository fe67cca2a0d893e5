import { invariant, StepwellError } from '../../../errors.ts';
import { FLAG_TIMED } from '../../../records/layout.ts';
import { type Address, Batch, type Operation, readInteger, Scratch } from '../../../verbs/index.ts';
import { ALWAYS, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { refuses as refusesKey } from '../../substrates/claims/slot-operations.ts';
import { BODY_BYTES, PAIR, PAIR_STATE_BYTES, type PairGeometry } from '../protocol/geometry.ts';
import {
  decodeRequest,
  type HashReply,
  type HashRequest,
  IF_SLOT,
  isRemoval,
  OP_CLEAR,
  OP_WRITE,
  OUT_OF_MEMORY,
  setHeader,
} from '../protocol/hash-messages.ts';
import { holdingIn } from '../protocol/lease.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from '../protocol/log.ts';
import { postBodies, type Unanswered } from '../protocol/mailbox.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { loadSegments, reportLost, TableLost, tableStateIn } from '../protocol/pair-state.ts';
import { Reused } from '../protocol/reused.ts';
import { type NamedSlot, signatureOf, slotWord, vacated } from '../protocol/slot.ts';
import {
  CLEARED,
  countOfTurn,
  type Decision,
  isEmptyTurn,
  type RecordBlock,
  unitsOfRecord,
} from '../protocol/turn.ts';
import { isSame, isWordIn, type Word, wordIn, wordOf } from '../protocol/word.ts';
import { Commit } from './commit.ts';
import { follows, KeyLookup, PostedRequest } from './key-lookup.ts';

/** Offsets in `#words`: the pair's words have their own offsets, and the others follow. */
const ROWS_USED = PAIR_STATE_BYTES;
const TURN_AGAIN = ROWS_USED + 8;
/** The number of each row's last request, and behind these the last answered number of each row. */
const NUMBERS = TURN_AGAIN + 8;
/** While at most this many rows are in use, a look reads the requests too: 8 KiB. */
const ROWS_READ_WHOLE = 128;
/** An attempt fails if another server has decided a turn, or more rows are in use. */
export const ATTEMPTS_MAX = 10_000;

export interface TurnResult {
  answers: readonly Decision[];
  released?: boolean;
  /** The generation of a lost table, which must be rebuilt before anything can be answered. */
  lost?: number;
  /** The generation of a table that must grow before anything can be answered. */
  crowded?: number;
  /** Another server decided first: nothing of this turn has happened. */
  isOvertaken?: boolean;
  /** What the last doorbell read, for the worker's next turn. */
  next?: Look | undefined;
}

/** Whether the turn found the table neither lost nor crowded. */
export function hasTable({ lost, crowded }: TurnResult): boolean {
  return lost === undefined && crowded === undefined;
}

const NOTHING: TurnResult = { answers: [] };
const OVERTAKEN: TurnResult = { answers: [], isOvertaken: true };

export interface TurnOptions {
  /** Releases the lease in the same doorbell when no request is left. */
  release: boolean;
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

/** Undefined if the table is another one by now: then the bucket's block may have been freed. */
function bucketToClear(
  { generation }: PairGeometry,
  { block, h1, h2 }: HashRequest,
): Address | undefined {
  const { low, high } = wordOf(generation);
  return h1 === low && h2 === high ? block : undefined;
}

/** Runs turns, one after the other, in memory of its own. */
export class TurnWorker {
  readonly #pair: PairAccess;
  readonly #lookup: KeyLookup;
  readonly #batch = new Batch();
  readonly #commit: Commit;
  readonly #words: Scratch;
  readonly #bodies = new Scratch(ROWS_READ_WHOLE * BODY_BYTES);
  /** The waiting requests that the last look has found, and the requests of this turn. */
  readonly #unanswered = new Reused<Unanswered>(() => ({ row: 0, number: 0 }));
  readonly #posted = new Reused<PostedRequest>(() => new PostedRequest());
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
    this.#findUnanswered(look.turn);
    const { length: waiting } = this.#unanswered;
    if (waiting === 0) return NOTHING;
    const { geometry } = this.#pair;
    const { spare } = options;
    const most = Math.min(waiting, geometry.turnMax);
    // A client whose spare is one of its own places has just found the pool full.
    const isFull =
      spare !== undefined && (geometry.isOwnRecord(spare.address) || this.#pair.wasJustFull);
    // A turn for the client's own request alone needs no block but the one that the client has.
    const isSpare = waiting === 1 && spare?.address !== 0 && this.#waits(spare?.row);
    let block: RecordBlock | undefined =
      isFull || isSpare
        ? spare
        : ((yield* this.#allocate(most)) ?? (yield* this.#allocate(geometry.turnMax)));
    if (block === undefined) this.#pair.noteFull();
    block ??= spare;
    if (block === undefined || (block === spare && !this.#waits(spare?.row))) return NOTHING;
    try {
      return yield* this.#answer(look, block, options, isLast);
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

  /**
   * Answers the requests that wait, or with the spare block only the client's own. Once the pair
   * owns the block, its address is 0.
   */
  *#answer(
    look: Look,
    block: RecordBlock,
    { release, spare }: TurnOptions,
    isLast: boolean,
  ): Operation<TurnResult> {
    const waiting = this.#unanswered.length;
    // A server process always goes on, a client only while its own request waits. If another server
    // has answered that, the client reads its reply.
    const mayGoOn = spare === undefined || this.#waits(spare.row);
    if (!(yield* this.#take(look, block === spare ? spare.row : undefined))) return OVERTAKEN;
    try {
      yield* this.#lookup.read(this.#posted);
    } catch (error) {
      if (!(error instanceof TableLost)) throw error;
      yield* reportLost(this.#pair.geometry, error.generation);
      return { answers: [], lost: error.generation };
    }
    const decided = yield* this.#decide(look.committed);
    const { answers, crowded, isOvertaken } = decided;
    if (crowded !== undefined || isOvertaken) return decided;
    const releases = release && answers.length === waiting;
    const goesOn = mayGoOn && !answers.some(({ row }) => row === spare?.row);
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

  /** The next turn reuses the decisions. */
  *#decide(committed: number): Operation<TurnResult> {
    const { generation } = this.#pair.geometry;
    const answers: Decision[] = new Array(this.#posted.length);
    let count = 0;
    let sequence = committed;
    for (let i = 0; i < this.#posted.length; i++) {
      const one = this.#posted.at(i);
      const { first, decision } = one;
      if (first === one) this.#lookup.match(one);
      else if (!follows(one)) continue;
      const outcome = yield* decide(this.#lookup, one, sequence + 1);
      if (outcome === 'overtaken') return OVERTAKEN;
      if (outcome === 'crowded') return { answers: [], crowded: generation };
      answers[count++] = decision;
      if (decision.event === 0) continue;
      sequence = decision.reply.sequence;
      first.match = decision;
      first.version = decision.reply.version;
      first.isExpired = false;
    }
    answers.length = count;
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
    throw new StepwellError('SW_CONTENTION', 'other servers keep deciding turns');
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

  /** Undefined if the client must read again: a turn is unfinished, the table or rows are new. */
  #seen(): Look | undefined {
    const { geometry, hashLease } = this.#pair;
    const used = geometry.hashMailbox.inTable(readInteger(this.#words, ROWS_USED));
    if (used > this.#rows) {
      this.#pair.rowsUsed = Math.max(this.#pair.rowsUsed, used);
      return undefined;
    }
    const turn = wordIn(this.#words, PAIR.turn);
    const { isLost, generation } = tableStateIn(this.#words, PAIR.table);
    if (!isWordIn(this.#words, PAIR.done, turn) || generation !== geometry.generation) {
      return undefined;
    }
    const committed = readInteger(this.#words, PAIR.committed);
    const holder = holdingIn(this.#words, PAIR.hashLease);
    const isHolder = hashLease.isForTurns(holder);
    const isAlone = isHolder && !holder.yields;
    return { turn, committed, lost: isLost ? generation : undefined, isHolder, isAlone };
  }

  /**
   * Finds the waiting requests. Each turn begins at another row. Otherwise clients in low rows that
   * keep writing to one bucket would starve the others.
   */
  #findUnanswered(turn: Word): void {
    const { hashMailbox: mailbox } = this.#pair.geometry;
    this.#unanswered.length = 0;
    const first = countOfTurn(turn);
    for (let i = 0; i < this.#rows; i++) {
      const row = (first + i) % this.#rows;
      const number = readInteger(this.#words, NUMBERS + 8 * row);
      if (number === readInteger(this.#words, NUMBERS + 8 * (mailbox.rows + row))) continue;
      const one = this.#unanswered.add();
      one.row = row;
      one.number = number;
    }
  }

  #waits(row: number | undefined): boolean {
    return this.#unanswered.find((one) => one.row === row) !== undefined;
  }

  /**
   * Takes the requests of this turn, all or that of one row: for each bucket the first one, and
   * further writes of the same key. A request to clear a bucket gets a turn of its own: the bucket
   * may be in any chain. False if there was another turn meanwhile: an answered row can be written
   * again, so a body that was read may mix two requests.
   */
  *#take({ turn }: Look, only: number | undefined): Operation<boolean> {
    const { geometry } = this.#pair;
    const chosen = this.#unanswered;
    if (only === undefined) chosen.length = Math.min(chosen.length, geometry.turnMax);
    else chosen.keep(({ row }) => row === only);
    const isWhole = this.#rows <= ROWS_READ_WHOLE;
    if (!isWhole) {
      const batch = postBodies(geometry.hashMailbox, chosen, this.#bodies, this.#batch.clear());
      yield batch.read(geometry.base + PAIR.turn, 8, this.#words, TURN_AGAIN);
    }
    if (!isWordIn(this.#words, TURN_AGAIN, turn)) return false;
    this.#posted.length = 0;
    for (let i = 0; i < chosen.length; i++) {
      const at = (isWhole ? chosen.at(i).row : i) * BODY_BYTES;
      const one = this.#posted.add();
      const request = decodeRequest(this.#bodies, at, one.request);
      if (this.#posted.at(0).request.operation === OP_CLEAR) {
        one.begin(chosen.at(i), bucketToClear(geometry, request));
        break;
      }
      const bucket = geometry.bucketOf(request);
      const first = this.#posted.find((other) => other !== one && other.bucket === bucket);
      const waits = first !== undefined && !mayFollow(first.request, request);
      if (waits || request.operation === OP_CLEAR) this.#posted.length--;
      else one.begin(chosen.at(i), bucket, first);
    }
    return true;
  }
}

/**
 * Decides a request. Its first one (`PostedRequest.first`) knows which slot has the key. A change
 * gets the number `sequence`. Decides nothing if another server has decided a turn meanwhile, or if
 * the table must grow first.
 */
function* decide(
  lookup: KeyLookup,
  posted: PostedRequest,
  sequence: number,
): Operation<'decided' | 'overtaken' | 'crowded'> {
  const { request, first } = posted;
  const { match, version } = first;
  if (request.operation === OP_CLEAR) return clear(lookup, posted, sequence);
  if (refuses(request, first)) {
    return reply(posted, REFUSED, first.isExpired ? undefined : match, version);
  }
  const record = slotWord(request.block, request.units, signatureOf(request.h2));
  // A slot without a length would be empty.
  const isNamed = isRemoval(request.operation) || (request.units > 0 && request.block > 0);
  invariant(isNamed, 'a request stores a record without a length');
  if (match === undefined) {
    const slot = yield* lookup.emptySlot(first);
    if (slot === 'full') return reply(posted, OUT_OF_MEMORY, match, version);
    if (slot === 'overtaken' || slot === 'crowded') return slot;
    change(posted, LOG_INSERT, slot, record);
    return reply(posted, INSERTED, match, request.firstVersion, sequence);
  }
  if (isRemoval(request.operation)) {
    change(posted, LOG_DELETE, match.slot, vacated(sequence));
    return reply(posted, REPLACED, match, version, sequence);
  }
  // A replacement's version is known only now: until now no client could read its header.
  const next = (version + 1) >>> 0;
  change(posted, LOG_UPDATE, match.slot, record);
  setHeader(posted.decision.header, request, next);
  return reply(posted, REPLACED, match, next, sequence);
}

/** The changes of the slots get the numbers from `sequence` on; the reply has the last one. */
function clear(lookup: KeyLookup, posted: PostedRequest, sequence: number): 'decided' {
  const count = lookup.clear(posted);
  if (count === 0) return reply(posted, REFUSED, undefined, 0);
  posted.decision.event = CLEARED;
  posted.decision.slot = posted.bucket;
  return reply(posted, REPLACED, undefined, count, sequence + count - 1);
}

function change({ decision }: PostedRequest, event: number, slot: Address, word: Word): void {
  const { low, high } = word;
  decision.event = event;
  decision.slot = slot;
  decision.low = low;
  decision.high = high;
}

function reply(
  { decision: { reply } }: PostedRequest,
  outcome: HashReply['outcome'],
  match: NamedSlot | undefined,
  version: number,
  sequence = 0,
): 'decided' {
  reply.outcome = outcome;
  reply.version = version;
  reply.oldLow = match?.low ?? 0;
  reply.oldHigh = match?.high ?? 0;
  reply.sequence = sequence;
  return 'decided';
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
