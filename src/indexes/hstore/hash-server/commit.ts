import { invariant, StepwellError } from '../../../errors.ts';
import { isCurrentState, nextState } from '../../../pool/memory/block-state.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { classOfHead } from '../../substrates/record-io.ts';
import { LOG_ENTRY_BYTES, PAIR, REPLY_BYTES } from '../protocol/geometry.ts';
import { encodeEntry, LOG_UPDATE } from '../protocol/log.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { stateByteOf } from '../protocol/record-heads.ts';
import { Reused } from '../protocol/reused.ts';
import { BUCKET_BYTES, markIn, recordOf, unitsOfSlot } from '../protocol/slot.ts';
import {
  blockOfTurn,
  decisionAt,
  decodeTurn,
  encodeTurn,
  IN_DECISION,
  isClearing,
  NetChange,
  noteNetChanges,
  type RecordBlock,
  type TurnRecord,
  turnAfter,
  unitsOfRecord,
} from '../protocol/turn.ts';
import { isWordIn, type Word, wordIn, wordOf } from '../protocol/word.ts';

export interface RunOptions {
  /** Releases the lease in the last doorbell. */
  releases: boolean;
  /** No server overtakes this one before it is fenced, so it may set marks by WRITE. */
  isAlone: boolean;
  /** Adds READs to the last doorbell, behind all changes. */
  ahead?: ((batch: Batch) => void) | undefined;
}

/** The mark of a record: a state byte, and whether it must say that the record is current. */
interface Mark {
  at: Address;
  isCurrent: boolean;
}

/** Offsets in what is read for a decision: bucket, header, reply, last answered number. */
const HEADER_AT = BUCKET_BYTES;
const REPLY_AT = HEADER_AT + HEADER_BYTES;
const ANSWERED_AT = REPLY_AT + REPLY_BYTES;
const SEEN_BYTES = ANSWERED_AT + 8;
/** CASes for one decision: words of the header and the reply, number. A change has one more. */
const SWAPS_PER_DECISION = 1 + (HEADER_BYTES + REPLY_BYTES) / 8;
/** CASes for one turn: `begun`, `committed`, `done`, the lease. */
const SWAPS_PER_TURN = 4;
const MARK_ATTEMPTS_MAX = 10_000;

/**
 * Decides a turn and carries it out.
 *
 * 1. One doorbell WRITEs the turn's record into a block of its own, and CASes the pair's word
 *    `turn` from the turn that the decisions are based on to this one. If the CAS fails, another
 *    server has decided a turn meanwhile, and this one decides nothing.
 * 2. Then the server makes the changes: marks of records, log, `begun`, headers, slots, replies,
 *    `committed`, `done`. A server that finds a turn decided but not done does this from its
 *    record.
 *
 * A server may be overtaken anywhere and go on at any time later: a process that was stopped can
 * still post its next verb. So it changes each word by CAS, from what the word was before the turn.
 * No word returns to an old value while the server may be within this operation. Slots name
 * records, which are freed through epochs, or the change that emptied them. Replies and numbers
 * contain the number of the request. State bytes and the rest count up. Log entries are written by
 * WRITE; their sequence shows when they are out of date. So are marks, but only by a server that is
 * fenced before it is overtaken: see `#postMarks`.
 */
export class Commit {
  readonly #pair: PairAccess;
  readonly #batch = new Batch();
  readonly #record = new Scratch(1024);
  readonly #seen = new Scratch(1024);
  readonly #written = new Scratch(1024);
  readonly #swaps = new Scratch(1024);
  readonly #states = new Scratch(64);
  readonly #words = new Scratch(8);
  #swapCount = 0;
  /** This turn, and the last one that was done before it. */
  #turn: Word = wordOf(0);
  #before: Word = wordOf(0);
  /** The turn's decisions, the change of each slot, and the marks that change. */
  #decided: TurnRecord = { before: 0, decisions: [] };
  /** How many of them change a slot. */
  #events = 0;
  readonly #changes = new Reused<NetChange>(() => new NetChange());
  readonly #marks = new Reused<Mark>(() => ({ at: NULL_ADDRESS, isCurrent: false }));

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * Decides a turn after `before` and carries it out. Undefined when another server decided one
   * first: then the block is still the caller's. False when another server has finished this turn:
   * then this one has not released the lease.
   */
  *run(
    record: TurnRecord,
    before: Word,
    block: RecordBlock,
    options: RunOptions,
  ): Operation<boolean | undefined> {
    // The log keeps two turns, so that readers can follow it.
    const { length } = record.decisions;
    invariant(length <= this.#pair.geometry.turnMax, 'a turn answers more than the log can keep');
    invariant(
      unitsOfRecord(length) <= block.units,
      'the record of a turn is longer than its block',
    );
    this.#begin(record, before, turnAfter(before, block.address, block.units));
    yield* this.#mark();
    // The whole block, because a server that repeats the turn reads the whole block.
    const bytes = block.units * UNIT_BYTES;
    this.#record.ensure(bytes);
    encodeTurn(record, this.#record);
    const batch = this.#clear().write(block.address, bytes, this.#record, 0);
    this.#postSwap(this.#at(PAIR.turn), before, this.#turn);
    this.#postSeen();
    this.#postStates();
    yield batch;
    if (!swapped(this.#swaps, 0)) return undefined;
    this.#retire(before);
    const isDone = yield* this.#finish(options);
    if (isClearing(record.decisions)) this.#retireCleared();
    return isDone;
  }

  /** Counts an empty turn as done. Its word names the record of the turn before, which is done. */
  *skip(before: Word, turn: Word): Operation<void> {
    const batch = this.#clear();
    this.#postSwap(this.#at(PAIR.done), before, turn);
    yield batch;
  }

  /** Carries out a turn that another server has decided, after the last one that is done. */
  *repeat(before: Word, turn: Word): Operation<void> {
    const { address, units } = blockOfTurn(turn);
    const bytes = units * UNIT_BYTES;
    this.#record.ensure(bytes);
    yield this.#clear().read(address, bytes, this.#record, 0);
    const record = decodeTurn(this.#record, bytes, this.#pair.geometry.hashMailbox.rows);
    this.#begin(record, before, turn);
    const batch = this.#clear();
    this.#postSeen();
    this.#postDone();
    yield batch;
    if (!this.#isOpen()) return;
    invariant(!record.isDamaged, 'the record of a turn is damaged');
    this.#pair.repeated += record.decisions.length;
    // Marks change before slots. So if the slot has changed, its marks have too, and the old
    // record's block may have been freed. If the table's memory is lost, the reply tells.
    yield* this.#mark(true);
    this.#clear();
    this.#postStates();
    yield batch;
    yield* this.#finish({ releases: false, isAlone: false });
  }

  /**
   * Makes the changes, from what was read before the turn was done. Returns false when another
   * server has finished the turn: then what was read may be newer.
   */
  *#finish({ releases, isAlone, ahead }: RunOptions): Operation<boolean> {
    if (!this.#isOpen()) return false;
    if (!isAlone && !(yield* this.#swapMarks())) return false;
    // WRITEs first: they may overtake a CAS, and nothing overtakes them.
    const batch = this.#clear();
    if (isAlone) this.#postMarks();
    this.#postEntries();
    this.#postChanges();
    this.#postSwap(this.#at(PAIR.done), this.#before, this.#turn);
    if (releases) {
      const own = wordOf(this.#pair.hashLease.forTurns);
      this.#postSwap(this.#at(PAIR.hashLease), own, wordOf(0));
    }
    ahead?.(batch);
    yield batch;
    return true;
  }

  #at(word: number): Address {
    return this.#pair.geometry.base + word;
  }

  #begin(record: TurnRecord, before: Word, turn: Word): void {
    const { length } = record.decisions;
    this.#decided = record;
    noteNetChanges(record, this.#changes);
    const clears = isClearing(record.decisions);
    this.#events = clears ? this.#changes.length : 0;
    if (!clears) for (const { event } of record.decisions) if (event !== 0) this.#events++;
    this.#before = before;
    this.#turn = turn;
    const swaps = SWAPS_PER_TURN + length * SWAPS_PER_DECISION + this.#changes.length;
    this.#swaps.ensure(swaps * CAS_BYTES);
    this.#seen.ensure(length * SEEN_BYTES);
    this.#written.ensure(this.#events * LOG_ENTRY_BYTES);
  }

  #clear(): Batch {
    this.#swapCount = 0;
    return this.#batch.clear();
  }

  #postSeen(): void {
    const { hashMailbox } = this.#pair.geometry;
    const { decisions } = this.#decided;
    for (let i = 0; i < decisions.length; i++) {
      const { event, slot, row } = decisions[i];
      const at = i * SEEN_BYTES;
      const bucket = slot - (slot % BUCKET_BYTES);
      if (event !== 0) this.#batch.read(bucket, BUCKET_BYTES, this.#seen, at);
      if (event === LOG_UPDATE) {
        this.#batch.read(recordOf(decisions[i]), HEADER_BYTES, this.#seen, at + HEADER_AT);
      }
      this.#batch
        .read(hashMailbox.reply(row), REPLY_BYTES, this.#seen, at + REPLY_AT)
        .read(hashMailbox.answered(row), 8, this.#seen, at + ANSWERED_AT);
    }
  }

  #postDone(): void {
    this.#batch.read(this.#at(PAIR.done), 8, this.#words, 0);
  }

  /** Whether the turn was unfinished when the last batch was executed. */
  #isOpen(): boolean {
    return isWordIn(this.#words, 0, this.#before);
  }

  /** Offset in `#seen` of a slot that changes. */
  #slotAt({ last, slot }: NetChange): number {
    return last * SEEN_BYTES + (slot % BUCKET_BYTES);
  }

  /**
   * Whether another server has already set the marks of a change. If the bucket is lost, the first
   * reply tells: it names the old record, which its client then frees.
   */
  #isMarked(change: NetChange): boolean {
    const { first, last } = change;
    if (markIn(this.#seen, last * SEEN_BYTES) === 0) return this.#isAnswered(first);
    return isWordIn(this.#seen, this.#slotAt(change), change);
  }

  /** Whether the decision's request was answered, and so all earlier changes made. */
  #isAnswered(i: number): boolean {
    const answered = readInteger(this.#seen, i * SEEN_BYTES + ANSWERED_AT);
    return answered === this.#decided.decisions[i].number;
  }

  /**
   * Notes which records the changes make current, and which they replace. In a repeated turn it
   * leaves out changes whose marks another server has set.
   */
  *#mark(isRepeated = false): Operation<void> {
    this.#marks.length = 0;
    for (let i = 0; i < this.#changes.length; i++) {
      const change = this.#changes.at(i);
      if (isRepeated && this.#isMarked(change)) continue;
      yield* this.#addMark(change.old, false);
      yield* this.#addMark(change, true);
    }
  }

  *#addMark(slot: Word, isCurrent: boolean): Operation<void> {
    const at = yield* stateByteOf(this.#pair.pool.allocator, slot);
    if (at === NULL_ADDRESS) return;
    const mark = this.#marks.add();
    mark.at = at;
    mark.isCurrent = isCurrent;
  }

  /** Reads state bytes, and then `done`: bytes read after the turn was done do not count. */
  #postStates(): void {
    this.#states.ensure(8 * this.#marks.length);
    for (let i = 0; i < this.#marks.length; i++) {
      const { at } = this.#marks.at(i);
      this.#batch.read(at - (at % 8), 8, this.#states, 8 * i);
    }
    this.#postDone();
  }

  /** Sets a mark in the state byte that was read; false if it is set already. */
  #changeState({ at, isCurrent }: Mark, i: number): boolean {
    const { u8 } = this.#states;
    const byte = 8 * i + (at % 8);
    if (isCurrentState(u8[byte]) === isCurrent) return false;
    u8[byte] = nextState(u8[byte]);
    return true;
  }

  /**
   * For a server that is fenced before it is overtaken. A server that this one has overtaken may
   * still carry out this turn, but decides none after it (see TurnWorker.look). So until the turn
   * is done, marks change only to what is written here.
   */
  #postMarks(): void {
    for (let i = 0; i < this.#marks.length; i++) {
      const mark = this.#marks.at(i);
      const byte = 8 * i + (mark.at % 8);
      if (this.#changeState(mark, i)) this.#batch.write(mark.at, 1, this.#states, byte);
    }
  }

  /**
   * A state byte shares its word with bytes that other clients WRITE, so a CAS may fail and is
   * tried again. Returns false when another server has finished the turn.
   */
  *#swapMarks(): Operation<boolean> {
    for (let attempt = 1; attempt <= MARK_ATTEMPTS_MAX; attempt++) {
      const batch = this.#clear();
      this.#marks.keep(this.#postMark);
      if (this.#marks.length === 0) return true;
      yield batch;
      if (this.#marks.length === this.#swapCount && this.#allSwapped()) return true;
      this.#clear();
      this.#postStates();
      yield batch;
      if (!this.#isOpen()) return false;
    }
    throw new StepwellError('SW_CONTENTION', 'other clients keep changing state bytes');
  }

  /** Posts the CAS of a mark; false if it is set already. */
  readonly #postMark = (mark: Mark, i: number): boolean => {
    const word = mark.at - (mark.at % 8);
    const [low, high] = [lowHalf(this.#states, 8 * i), highHalf(this.#states, 8 * i)];
    if (!this.#changeState(mark, i)) return false;
    // One CAS for each word: a second one would expect what the first has changed.
    if (this.#isPosted(word)) return true;
    this.#postCas(word, low, high, lowHalf(this.#states, 8 * i), highHalf(this.#states, 8 * i));
    return true;
  };

  #isPosted(word: Address): boolean {
    const { address, length } = this.#batch;
    for (let row = 0; row < length; row++) if (address[row] === word) return true;
    return false;
  }

  #allSwapped(): boolean {
    for (let i = 0; i < this.#swapCount; i++) {
      if (!swapped(this.#swaps, i * CAS_BYTES)) return false;
    }
    return true;
  }

  /** Log entries may be written at any time before the words that count them. */
  #postEntries(): void {
    const { before, decisions } = this.#decided;
    const clears = isClearing(decisions);
    const length = clears ? this.#events : decisions.length;
    let at = 0;
    for (let i = 0; i < length; i++) {
      const change = clears ? this.#changes.at(i) : decisions[i];
      if (change.event === 0) continue;
      const sequence = before + 1 + at / LOG_ENTRY_BYTES;
      encodeEntry(change, sequence, this.#written, at);
      const entry = this.#pair.geometry.logEntry(sequence);
      this.#batch.write(entry, LOG_ENTRY_BYTES, this.#written, at);
      at += LOG_ENTRY_BYTES;
    }
  }

  #postChanges(): void {
    const { hashMailbox } = this.#pair.geometry;
    const { decisions } = this.#decided;
    this.#postCount(PAIR.begun);
    for (let i = 0; i < decisions.length; i++) {
      // An answered request has its header. If another write of the turn replaced its record, a
      // client may have freed the block, which may serve something else by now.
      if (decisions[i].event !== LOG_UPDATE || this.#isAnswered(i)) continue;
      const header = decisionAt(i) + IN_DECISION.header;
      const seen = i * SEEN_BYTES + HEADER_AT;
      this.#postWords(recordOf(decisions[i]), HEADER_BYTES, header, seen);
    }
    for (let i = 0; i < this.#changes.length; i++) {
      const change = this.#changes.at(i);
      const at = this.#slotAt(change);
      if (isWordIn(this.#seen, at, change)) continue;
      this.#postSwap(change.slot, wordIn(this.#seen, at), change);
    }
    for (let i = 0; i < decisions.length; i++) {
      const { row } = decisions[i];
      const at = decisionAt(i);
      const seen = i * SEEN_BYTES;
      const reply = hashMailbox.reply(row);
      this.#postWords(reply, REPLY_BYTES, at + IN_DECISION.reply, seen + REPLY_AT);
      this.#postWords(hashMailbox.answered(row), 8, at + IN_DECISION.number, seen + ANSWERED_AT);
    }
    this.#postCount(PAIR.committed);
  }

  /** Changes words from what was read at `seen` to what the record has, unless they are equal. */
  #postWords(to: Address, bytes: number, recordAt: number, seen: number): void {
    const [from, wanted] = [this.#seen.i32, this.#record.i32];
    for (let at = 0; at < bytes; at += 8) {
      const [a, b] = [(seen + at) >> 2, (recordAt + at) >> 2];
      if (from[a] === wanted[b] && from[a + 1] === wanted[b + 1]) continue;
      this.#postCas(to + at, from[a], from[a + 1], wanted[b], wanted[b + 1]);
    }
  }

  /** Posts the CAS of `begun` or `committed` to the turn's last change, if it has any. */
  #postCount(word: number): void {
    if (this.#events === 0) return;
    const { before } = this.#decided;
    this.#postSwap(this.#at(word), wordOf(before), wordOf(before + this.#events));
  }

  #postSwap(word: Address, from: Word, to: Word): void {
    this.#postCas(word, from.low, from.high, to.low, to.high);
  }

  #postCas(word: Address, low: number, high: number, newLow: number, newHigh: number): void {
    const at = CAS_BYTES * this.#swapCount++;
    invariant(at + CAS_BYTES <= this.#swaps.u8.length, 'a turn posts more CASes than expected');
    setWord(this.#swaps, at, low, high);
    setWord(this.#swaps, at + 8, newLow, newHigh);
    this.#batch.cas(word, this.#swaps, at);
  }

  /** Retires the record of the turn before, which other servers may still be reading. */
  #retire(before: Word): void {
    const { address, units } = blockOfTurn(before);
    const { geometry, pool, catalog } = this.#pair;
    if (address === 0 || geometry.isOwnRecord(address)) return;
    pool.reclamation.retire(address, units, catalog);
  }

  /** Retires the records of a bucket: as their slots are empty, by whichever server. */
  #retireCleared(): void {
    const { pool, catalog } = this.#pair;
    for (let i = 0; i < this.#changes.length; i++) {
      const { old } = this.#changes.at(i);
      pool.reclamation.retire(recordOf(old), classOfHead(unitsOfSlot(old.high)), catalog);
    }
  }
}
