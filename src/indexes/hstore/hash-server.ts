import { StepwellError } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { BucketChains } from './bucket-chains.ts';
import { type Answer, Commit, type RecordBlock } from './commit.ts';
import { decide } from './decide.ts';
import { BODY_BYTES, PAIR } from './geometry.ts';
import { KeyMatch } from './key-match.ts';
import { decodeRequest, type HashRequest, OP_WRITE } from './messages.ts';
import type { Pair } from './pair.ts';
import { type Posted, postedOf } from './posted.ts';
import { loadSegments, sayLost, TableLost, tableStateIn } from './table-state.ts';
import { unitsOfRecord } from './turn-record.ts';
import {
  countOfTurn,
  emptyTurnAfter,
  isEmptyTurn,
  isSame,
  type TurnWord,
  turnIn,
} from './turn-word.ts';

/** Requests that are answered together: one batch of the log. */
const BATCH_MAX = 64;

const BEGUN = 0;
const COMMITTED = 8;
const TABLE = 16;
const ROWS_USED = 24;
const TURN = 32;
const DONE = 40;
const LEASE = 48;
const TURN_AGAIN = 56;
const HEADER = 64;
/** As long as no more rows are in use, requests are read with the numbers: 8 KiB. */
const ROWS_READ_WHOLE = 128;
/** Each attempt that fails is a turn of another server, or rows that were new. */
const ATTEMPTS_MAX = 10_000;

/** A request that waits for its answer. */
interface Waits {
  row: number;
  number: number;
}

/** What a turn has answered, and whether it has given the lease back. */
export interface Turn {
  answers: readonly Answer[];
  released: boolean;
  /** The generation of a table that has to be built anew before anything can be answered. */
  lost: number | undefined;
  /** Another server was faster: nothing of this turn has happened. */
  isOvertaken: boolean;
  /** What the last doorbell saw: where a turn begins that follows in the same operation. */
  next: Ahead | undefined;
}

/** A turn that has begun: in the memory of its worker stands what it has read. */
interface Ahead {
  readonly worker: TurnWorker;
  readonly look: Look;
}

const NOTHING: Turn = {
  answers: [],
  released: false,
  lost: undefined,
  isOvertaken: false,
  next: undefined,
};

export interface TurnOptions {
  /** The turn before, of the same operation. */
  after?: Turn;
  /** Gives the lease back in the same doorbell when nothing is left. */
  release: boolean;
  /** No turn follows in the same operation: nothing is read for one. */
  isLast?: boolean;
  /**
   * A block for a turn of one request, and the row that it is for: how a client makes sure that its
   * own request can be answered although the pool is full.
   */
  spare?: SpareBlock;
}

export interface SpareBlock {
  address: Address;
  row: number;
}

/** What is known at the beginning of a turn. */
interface Look {
  /** The last turn, which is done. */
  turn: TurnWord;
  committed: number;
  /** The generation of a table whose memory was lost. */
  lost: number | undefined;
  /** Whether this client had the lease for turns, when the turn had been read. */
  isHolder: boolean;
  /** Whether nobody overtakes this client while it has it, and can WRITE. */
  isAlone: boolean;
  /** Whether the requests of all rows were read, and then the turn. */
  isWhole: boolean;
}

/** The most requests that one turn of a server answers; the log keeps at least two turns. */
export function turnMax(logEntries: number): number {
  return Math.min(BATCH_MAX, logEntries / 2);
}

/**
 * The hash server of a pair: a state machine without a state of its own. All that it knows lies in
 * the pool, so whoever holds the lease can be it, from one turn to the next, and a holder that dies
 * or is stopped between any two words leaves what the next one needs.
 *
 * A turn (section 4.2) takes what has been posted, reads the buckets and keys that this concerns,
 * and decides. One CAS makes the decisions those of the pair, if nobody has decided anything since;
 * then they are made real, by whoever comes first (commit.ts).
 */
export class HashServer {
  readonly #pair: Pair;
  /**
   * Of a client with interleaved operations several can be in a turn: one that was overtaken does
   * not know it until its CAS fails, and one that has given the lease back goes on after others.
   */
  readonly #idle: TurnWorker[] = [];

  constructor(pair: Pair) {
    this.#pair = pair;
  }

  /** Answers what waits. When nothing waited there is no answer, and the lease is kept. */
  *turn(options: TurnOptions): Operation<Turn> {
    const ahead = options.after?.next;
    const worker = ahead?.worker ?? this.#idle.pop() ?? new TurnWorker(this.#pair);
    let next: Ahead | undefined;
    try {
      const turn = yield* worker.turn(options, ahead?.look);
      next = turn.next;
      return turn;
    } finally {
      // Else it is the next turn's alone, or nobody's.
      if (next === undefined) this.#idle.push(worker);
    }
  }

  /**
   * Whether this client has memory of its own for the records of turns, however full the pool is: a
   * chunk that it keeps, from which blocks are taken when there are no others, and to which they
   * come back as epochs pass. A server process asks for it before it takes the lease: else nobody
   * could even delete anything.
   */
  *isProvided(): Operation<boolean> {
    const { allocator, catalog, geometry } = this.#pair;
    const units = unitsOfRecord(turnMax(geometry.logEntries));
    const block = yield* blockUnlessFull(this.#pair, units);
    if (block) allocator.discard(catalog, units, block.address);
    return block !== undefined;
  }

  /** Completes what a server before has decided; returns the last turn. */
  *recover(): Operation<TurnWord> {
    return (yield* this.#work((worker) => worker.look())).turn;
  }

  /**
   * As the holder of the lease, before anything but a turn: whoever was overtaken before, and does
   * not know it, decides nothing any more.
   */
  *forestall(): Operation<void> {
    const { geometry } = this.#pair;
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const { turn } = yield* this.#work((worker) => worker.look());
      const next = emptyTurnAfter(turn);
      const words = new Scratch(2 * CAS_BYTES);
      for (const at of [0, CAS_BYTES]) {
        setWord(words, at, turn.low, turn.high);
        setWord(words, at + 8, next.low, next.high);
      }
      yield new Batch()
        .cas(geometry.base + PAIR.turn, words, 0)
        .cas(geometry.base + PAIR.done, words, CAS_BYTES);
      if (swapped(words, 0)) return;
    }
    throw new StepwellError('SW_CONTENTION', 'servers that were overtaken go on and on');
  }

  *#work<T>(what: (worker: TurnWorker) => Operation<T>): Operation<T> {
    const worker = this.#idle.pop() ?? new TurnWorker(this.#pair);
    try {
      return yield* what(worker);
    } finally {
      this.#idle.push(worker);
    }
  }
}

/**
 * Whether a request can be answered in the turn of one before it: both write, and the same key as
 * far as their hashes tell. What is written in between is never in the table (see commit.ts).
 */
function mayFollow(first: HashRequest, { operation, h1, h2 }: HashRequest): boolean {
  const areWrites = first.operation === OP_WRITE && operation === OP_WRITE;
  return areWrites && first.h1 === h1 && first.h2 === h2;
}

function* blockUnlessFull(
  { allocator, catalog }: Pair,
  units: number,
): Operation<RecordBlock | undefined> {
  try {
    return { address: yield* allocator.allocate(catalog, units), units };
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') return undefined;
    throw error;
  }
}

/** One turn after the other, each with memory of its own. */
class TurnWorker {
  readonly #pair: Pair;
  readonly #chains: BucketChains;
  readonly #keys = new KeyMatch();
  readonly #batch = new Batch();
  readonly #commit: Commit;
  readonly #words: Scratch;
  readonly #bodies = new Scratch(ROWS_READ_WHOLE * BODY_BYTES);
  readonly #turnMax: number;
  /** Rows of the mailbox that the last look has read. */
  #rows = 0;

  constructor(pair: Pair) {
    this.#pair = pair;
    this.#chains = new BucketChains(pair);
    this.#commit = new Commit(pair);
    this.#words = new Scratch(HEADER + 16 * pair.geometry.hashMailbox.rows);
    this.#turnMax = turnMax(pair.geometry.logEntries);
  }

  *turn({ release, spare, isLast }: TurnOptions, begun: Look | undefined): Operation<Turn> {
    const look = begun ?? (yield* this.look());
    const { turn, committed, lost, isHolder, isAlone } = look;
    if (!isHolder) return { ...NOTHING, isOvertaken: true };
    if (lost !== undefined) return { ...NOTHING, lost };
    const waiting = this.#waiting(turn);
    if (waiting.length === 0) return NOTHING;
    const chosen = waiting.slice(0, this.#turnMax);
    const block = yield* this.#takeBlock(chosen.length);
    const isSpare = block === undefined;
    const own = waiting.filter(({ row }) => row === spare?.row);
    if (isSpare && own.length === 0) return NOTHING;
    const given = block ?? { address: spare?.address as Address, units: unitsOfRecord(1) };
    let isNamed = false;
    try {
      const taken = yield* this.#take(look, isSpare ? own : chosen);
      if (taken === undefined) return { ...NOTHING, isOvertaken: true };
      const answers = yield* this.#decide(taken);
      if (answers === 'overtaken') return { ...NOTHING, isOvertaken: true };
      if (typeof answers === 'number') return { ...NOTHING, lost: answers };
      const isAll = answers.length === waiting.length;
      // A doorbell that fails, too, may have decided it: then the block is nobody's.
      isNamed = true;
      if (isSpare && spare) spare.address = 0;
      const releases = release && isAll;
      // A client goes on as long as its own request waits, a server process in any case. Whose
      // request does not wait any more (another's turn has answered it) looks for its reply first.
      const isOwnDone = own.length === 0 || answers.some(({ posted }) => posted.row === spare?.row);
      const goesOn = !isLast && (spare === undefined || !isOwnDone);
      const looksAhead = goesOn && !releases;
      const ahead = looksAhead ? (batch: Batch) => this.#postLook(batch) : undefined;
      const options = { releases, isAlone, ahead };
      const run = yield* this.#commit.run(answers, turn, committed, given, options);
      if (run === undefined) {
        isNamed = false;
        if (isSpare && spare) spare.address = given.address;
        return { ...NOTHING, isOvertaken: true };
      }
      for (const { posted, reply } of answers) {
        this.#pair.replies.answer(posted.row, posted.number, reply);
      }
      const seen = looksAhead && run.isDone ? this.#seen() : undefined;
      const next = seen && { worker: this, look: seen };
      return { ...NOTHING, answers, released: run.released, next };
    } finally {
      if (!isNamed && !isSpare) this.#giveBlock(given);
    }
  }

  /** A block for the record of a turn; undefined when the pool is full. */
  *#takeBlock(decisions: number): Operation<RecordBlock | undefined> {
    const block = yield* blockUnlessFull(this.#pair, unitsOfRecord(decisions));
    return block ?? (yield* blockUnlessFull(this.#pair, unitsOfRecord(this.#turnMax)));
  }

  #giveBlock({ address, units }: RecordBlock): void {
    this.#pair.allocator.discard(this.#pair.catalog, units, address);
  }

  /** The generation of a table of which a bucket was none. */
  *#decide(posted: Posted[]): Operation<Answer[] | number | 'overtaken'> {
    try {
      yield* this.#chains.read(posted, (batch) => this.#keys.postKeys(posted, batch));
    } catch (error) {
      if (!(error instanceof TableLost)) throw error;
      yield* sayLost(this.#pair.geometry, error.generation);
      return error.generation;
    }
    yield* this.#keys.readCandidates(posted);
    const answers: Answer[] = [];
    for (const one of posted) {
      const { first = one } = one;
      if (first === one) this.#keys.match(one);
      else if (!this.#keys.follows(one)) continue;
      const answer = yield* decide(this.#chains, one, first.match, first.version);
      if (answer === undefined) return 'overtaken';
      answers.push(answer);
      if (answer.change === undefined) continue;
      const { slot, low, high } = answer.change;
      first.match = { slot, low, high, at: 0, bytes: 0 };
      first.version = answer.reply.version;
    }
    return answers;
  }

  /**
   * Reads how far the log is, which table there is, and what is posted; completes what another
   * server has decided. `done` is read first: as long as it stays, the turn that is read next is
   * either that one or the only one after it. All else is read later: it is of this turn, or of a
   * later one, and then the CAS of what is decided fails. So is the lease: who still has it then
   * decides nothing after whoever takes it from him has done or forestalled a turn.
   */
  *look(): Operation<Look> {
    const { geometry } = this.#pair;
    const batch = this.#batch;
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      this.#postLook(batch.clear());
      yield batch;
      const { generation } = tableStateIn(this.#words, TABLE);
      if (generation !== geometry.generation) yield* loadSegments(geometry);
      const look = this.#seen();
      if (look) return look;
      const [turn, done] = [turnIn(this.#words, TURN), turnIn(this.#words, DONE)];
      if (isSame(turn, done)) continue;
      if (isEmptyTurn(done, turn)) yield* this.#commit.skip(done, turn);
      else yield* this.#commit.repeat(done, turn);
    }
    throw new StepwellError('SW_CONTENTION', 'turns of the hash server are never done');
  }

  /** Requests after their numbers, and then the turn again: see `#take`. */
  #postLook(batch: Batch): void {
    const { geometry, rowsUsed: rows } = this.#pair;
    const { hashMailbox: mailbox } = geometry;
    this.#rows = rows;
    batch
      .read(geometry.base + PAIR.done, 8, this.#words, DONE)
      .read(geometry.base + PAIR.turn, 8, this.#words, TURN)
      .read(geometry.base + PAIR.hashLease, 8, this.#words, LEASE)
      .read(geometry.base + PAIR.begun, 24, this.#words, BEGUN)
      .read(mailbox.rowsUsed, 8, this.#words, ROWS_USED)
      .read(mailbox.request(0), 8 * rows, this.#words, HEADER)
      .read(mailbox.answered(0), 8 * rows, this.#words, HEADER + 8 * mailbox.rows);
    if (rows > ROWS_READ_WHOLE) return;
    batch
      .read(mailbox.body(0), BODY_BYTES * rows, this.#bodies, 0)
      .read(geometry.base + PAIR.turn, 8, this.#words, TURN_AGAIN);
  }

  /** Undefined when it has to be looked again, because of a turn, or a table, or rows in use. */
  #seen(): Look | undefined {
    const { geometry, hashLease } = this.#pair;
    const used = geometry.hashMailbox.inTable(readInteger(this.#words, ROWS_USED));
    if (used > this.#rows) {
      this.#pair.rowsUsed = Math.max(this.#pair.rowsUsed, used);
      return undefined;
    }
    const turn = turnIn(this.#words, TURN);
    if (!isSame(turn, turnIn(this.#words, DONE))) return undefined;
    const committed = readInteger(this.#words, COMMITTED);
    const { isLost, generation } = tableStateIn(this.#words, TABLE);
    if (generation !== geometry.generation) return undefined;
    const lost = isLost ? generation : undefined;
    const holder = hashLease.holderIn(this.#words, LEASE);
    const isHolder = hashLease.isForTurns(holder);
    const isAlone = isHolder && !holder.yields;
    const isWhole = this.#rows <= ROWS_READ_WHOLE;
    return { turn, committed, lost, isHolder, isAlone, isWhole };
  }

  /**
   * From another row on in each turn: clients whose rows come first, and who ask for the same
   * bucket all the time, would otherwise be all that is ever answered there.
   */
  #waiting(turn: TurnWord): Waits[] {
    const { hashMailbox: mailbox } = this.#pair.geometry;
    const waiting: Waits[] = [];
    const first = countOfTurn(turn);
    for (let i = 0; i < this.#rows; i++) {
      const row = (first + i) % this.#rows;
      const number = readInteger(this.#words, HEADER + 8 * row);
      const answered = readInteger(this.#words, HEADER + 8 * (mailbox.rows + row));
      if (number !== answered) waiting.push({ row, number });
    }
    return waiting;
  }

  /**
   * The requests of this turn: of those whose keys share a bucket only the first, and with it the
   * writes of the same key. Undefined when there was a turn meanwhile: a row that is answered is
   * written anew, and what was read of it may be of two requests.
   */
  *#take({ turn, isWhole }: Look, chosen: readonly Waits[]): Operation<Posted[] | undefined> {
    if (!isWhole) yield this.#postBodies(chosen);
    if (!isSame(turnIn(this.#words, TURN_AGAIN), turn)) return undefined;
    const posted: Posted[] = [];
    const buckets = new Map<number, Posted>();
    chosen.forEach(({ row, number }, i) => {
      const request = decodeRequest(this.#bodies, (isWhole ? row : i) * BODY_BYTES);
      const bucket = this.#chains.bucketOf(request);
      const first = buckets.get(bucket);
      if (first && !mayFollow(first.request, request)) return;
      const one = postedOf(row, number, request, first);
      posted.push(one);
      if (first === undefined) buckets.set(bucket, one);
    });
    return posted;
  }

  #postBodies(chosen: readonly Waits[]): Batch {
    const { geometry } = this.#pair;
    const batch = this.#batch.clear();
    chosen.forEach(({ row }, i) => {
      batch.read(geometry.hashMailbox.body(row), BODY_BYTES, this.#bodies, i * BODY_BYTES);
    });
    return batch.read(geometry.base + PAIR.turn, 8, this.#words, TURN_AGAIN);
  }
}
