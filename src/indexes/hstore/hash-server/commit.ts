import { invariant, StepwellError } from '../../../errors.ts';
import { isCurrentState, nextState } from '../../../pool/memory/block-state.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { LOG_ENTRY_BYTES, PAIR, REPLY_BYTES } from '../protocol/geometry.ts';
import { encodeEntry, LOG_UPDATE } from '../protocol/log.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { stateBytesOf } from '../protocol/record-heads.ts';
import { BUCKET_BYTES, isEmpty, isValid, NEXT, recordOf } from '../protocol/slot.ts';
import {
  blockOfTurn,
  type Decision,
  decodeTurn,
  encodeTurn,
  type NetChange,
  netChangesOf,
  type RecordBlock,
  replyOffset,
  type TurnRecord,
  turnAfter,
} from '../protocol/turn.ts';
import { isSame, type Word, wordIn, wordOf } from '../protocol/word.ts';

export interface RunOptions {
  /** Gives the lease back in the last doorbell. */
  releases: boolean;
  /** No server overtakes this one while it can WRITE. */
  isAlone: boolean;
  /** What is read in the last doorbell, after all that it changes. */
  ahead?: ((batch: Batch) => void) | undefined;
}

/** A state byte that says whether a record is current, and whether it has to say so. */
interface Mark {
  at: Address;
  isCurrent: boolean;
}

/** What stands in the pool of one decision: bucket, header, reply, which number is answered. */
const HEADER_AT = BUCKET_BYTES;
const REPLY_AT = HEADER_AT + HEADER_BYTES;
const ANSWERED_AT = REPLY_AT + REPLY_BYTES;
const SEEN_BYTES = ANSWERED_AT + 8;
/** Words of a decision that are swapped: those of the header and of the reply, slot, number. */
const SWAPS_PER_DECISION = 2 + (HEADER_BYTES + REPLY_BYTES) / 8;
/** Of a turn: begun, committed, done, the lease. */
const SWAPS_PER_TURN = 4;
const MARK_ATTEMPTS_MAX = 10_000;

/**
 * Decides a turn, and carries it out.
 *
 * 1. One doorbell WRITEs the record of the turn into a block of its own, and CASes the pair's word
 *    from the turn that the decisions are based on to this one. When that fails, another server has
 *    been at work meanwhile, and nothing was decided.
 * 2. Then the turn is done: marks of records, log, `begun`, headers, slots, replies, `committed`,
 *    `done`. A server that finds a turn which is decided and not done does it, from its record.
 *
 * A server may be overtaken anywhere, and go on at any time later: a process that was stopped can
 * still post the verb that it was about to post. So it changes each word by CAS, from what the word
 * was before the turn was done. No word is again what it once was while the server may be within
 * this operation: slots name records, which are freed through epochs, or the change that
 * emptied them; replies and numbers have the number of the request; state bytes and the rest count
 * up. Entries of the log are WRITTEN, and tell by their sequence that they are out of date.
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

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * Decides a turn after `before`, and does it. Undefined when another server was faster: then the
   * block is still the caller's. False when another server has done the turn: then the lease was
   * not given back in its doorbell.
   */
  *run(
    record: TurnRecord,
    before: Word,
    block: RecordBlock,
    options: RunOptions,
  ): Operation<boolean | undefined> {
    const turn = turnAfter(before, block.address, block.units);
    const marks = yield* this.#marksOf(record, netChangesOf(record.decisions));
    // All of the block: a server that does the turn again reads as much.
    const bytes = block.units * UNIT_BYTES;
    this.#record.ensure(bytes);
    encodeTurn(record, this.#record);
    const batch = this.#begin(record);
    batch.write(block.address, bytes, this.#record, 0);
    this.#postSwap(this.#at(PAIR.turn), before, turn);
    this.#postSeen(record);
    this.#postStates(marks);
    this.#postDone();
    yield batch;
    if (!swapped(this.#swaps, 0)) return undefined;
    this.#retire(before);
    return yield* this.#finish(before, turn, record, marks, options);
  }

  /** Goes past an empty turn: what it names is the record of the turn before, which is done. */
  *skip(before: Word, turn: Word): Operation<void> {
    this.#begin({ before: 0, decisions: [] });
    this.#postSwap(this.#at(PAIR.done), before, turn);
    yield this.#batch;
  }

  /** Does a turn that another server has decided, after the one that was done last. */
  *repeat(before: Word, turn: Word): Operation<void> {
    const { address, units } = blockOfTurn(turn);
    const bytes = units * UNIT_BYTES;
    this.#record.ensure(bytes);
    yield this.#batch.clear().read(address, bytes, this.#record, 0);
    const record = decodeTurn(this.#record, bytes, this.#pair.geometry.hashMailbox.rows);
    this.#begin(record);
    this.#postSeen(record);
    this.#postDone();
    yield this.#batch;
    if (!this.#isOpen(before)) return;
    invariant(!record.isDamaged, 'the record of a turn is damaged');
    this.#pair.repeated += record.decisions.length;
    // Marks stand before slots: where a slot is changed the marks are, and the old record's block
    // may have been freed. Where the table is lost, the answer tells.
    const unmarked = netChangesOf(record.decisions).filter((net) => !this.#isMarked(record, net));
    const marks = yield* this.#marksOf(record, unmarked);
    this.#batch.clear();
    this.#postStates(marks);
    this.#postDone();
    yield this.#batch;
    yield* this.#finish(before, turn, record, marks, { releases: false, isAlone: false });
  }

  /**
   * All that was seen of the pool was seen before the turn was done, or it is of no use: false when
   * another server has done it.
   */
  *#finish(
    before: Word,
    turn: Word,
    record: TurnRecord,
    marks: readonly Mark[],
    { releases, isAlone, ahead }: RunOptions,
  ): Operation<boolean> {
    if (!this.#isOpen(before)) return false;
    if (!isAlone && !(yield* this.#swapMarks(before, marks))) return false;
    // WRITEs first: they may overtake a CAS, and nothing overtakes them.
    const batch = this.#begin(record);
    if (isAlone) this.#postMarks(marks);
    this.#postEntries(record);
    this.#postChanges(record);
    this.#postSwap(this.#at(PAIR.done), before, turn);
    if (releases) this.#postRelease();
    ahead?.(batch);
    yield batch;
    return true;
  }

  #at(word: number): Address {
    return this.#pair.geometry.base + word;
  }

  #begin({ decisions }: TurnRecord): Batch {
    this.#swaps.ensure((SWAPS_PER_TURN + decisions.length * SWAPS_PER_DECISION) * CAS_BYTES);
    this.#seen.ensure(decisions.length * SEEN_BYTES);
    this.#swapCount = 0;
    return this.#batch.clear();
  }

  #postSeen({ decisions }: TurnRecord): void {
    const { hashMailbox } = this.#pair.geometry;
    decisions.forEach(({ event, slot, low, high, row }, i) => {
      const at = i * SEEN_BYTES;
      const bucket = slot - (slot % BUCKET_BYTES);
      if (event !== 0) this.#batch.read(bucket, BUCKET_BYTES, this.#seen, at);
      if (event === LOG_UPDATE) {
        this.#batch.read(recordOf({ low, high }), HEADER_BYTES, this.#seen, at + HEADER_AT);
      }
      this.#batch
        .read(hashMailbox.reply(row), REPLY_BYTES, this.#seen, at + REPLY_AT)
        .read(hashMailbox.answered(row), 8, this.#seen, at + ANSWERED_AT);
    });
  }

  #postDone(): void {
    this.#batch.read(this.#at(PAIR.done), 8, this.#words, 0);
  }

  /** Whether the turn after `before` was unfinished when the last batch was executed. */
  #isOpen(before: Word): boolean {
    return isSame(wordIn(this.#words, 0), before);
  }

  #bucketOf(i: number): number {
    return i * SEEN_BYTES;
  }

  #slotAt({ slot }: Decision, i: number): number {
    return this.#bucketOf(i) + (slot % BUCKET_BYTES);
  }

  /**
   * Of a change that another server may have made already: whether its marks are there. Of the
   * replies the first tells of the old record, which its client then frees.
   */
  #isMarked({ decisions }: TurnRecord, { first, last }: NetChange): boolean {
    const { i32 } = this.#seen;
    const decision = decisions[last];
    if (!isValid(i32[(this.#bucketOf(last) + NEXT) >> 2])) {
      return this.#isAnswered(decisions[first], first);
    }
    const slot = this.#slotAt(decision, last) >> 2;
    return i32[slot] === decision.low && i32[slot + 1] === decision.high;
  }

  /** Whether the reply to a decision's request was there, and so all that comes before it. */
  #isAnswered({ number }: Decision, i: number): boolean {
    return readInteger(this.#seen, i * SEEN_BYTES + ANSWERED_AT) === number;
  }

  /** The state bytes of what becomes current by these changes, and of what is it no more. */
  *#marksOf({ decisions }: TurnRecord, changes: readonly NetChange[]): Operation<Mark[]> {
    const { allocator } = this.#pair;
    const former = changes
      .map(({ first }) => decisions[first].reply)
      .map(({ oldLow, oldHigh }) => ({ low: oldLow, high: oldHigh }))
      .filter(({ high }) => !isEmpty(high));
    const current = changes.map(({ last }) => decisions[last]).filter(({ high }) => !isEmpty(high));
    return [
      ...(yield* stateBytesOf(allocator, former)).map((at) => ({ at, isCurrent: false })),
      ...(yield* stateBytesOf(allocator, current)).map((at) => ({ at, isCurrent: true })),
    ];
  }

  #postStates(marks: readonly Mark[]): void {
    this.#states.ensure(8 * marks.length);
    marks.forEach(({ at }, i) => {
      this.#batch.read(at - (at % 8), 8, this.#states, 8 * i);
    });
  }

  /**
   * Of a server that is not overtaken while it can WRITE. A server that it has overtaken may still
   * do this turn, but decides none after it (see TurnWorker.look): until it is done marks change
   * only to what is written here.
   */
  #postMarks(marks: readonly Mark[]): void {
    const { u8 } = this.#states;
    marks.forEach(({ at, isCurrent }, i) => {
      const byte = 8 * i + (at % 8);
      if (isCurrentState(u8[byte]) === isCurrent) return;
      u8[byte] = nextState(u8[byte]);
      this.#batch.write(at, 1, this.#states, byte);
    });
  }

  /**
   * State bytes share words with others' and are written by those singly. Returns whether the marks
   * were made here, and not by another server that has finished the turn.
   */
  *#swapMarks(before: Word, marks: readonly Mark[]): Operation<boolean> {
    let open = marks;
    for (let attempt = 1; attempt <= MARK_ATTEMPTS_MAX; attempt++) {
      const batch = this.#batch.clear();
      this.#swapCount = 0;
      // Of one word at a time: a second CAS of it would expect what the first has changed.
      const words = new Set<Address>();
      const posted: Mark[] = [];
      this.#swaps.ensure(open.length * CAS_BYTES);
      open.forEach(({ at, isCurrent }, i) => {
        const { u8 } = this.#states;
        const byte = 8 * i + (at % 8);
        if (isCurrentState(u8[byte]) === isCurrent) return;
        posted.push(open[i]);
        const word = at - (at % 8);
        if (words.has(word)) return;
        words.add(word);
        const seen = { low: this.#states.i32[2 * i], high: this.#states.i32[2 * i + 1] };
        u8[byte] = nextState(u8[byte]);
        const wanted = { low: this.#states.i32[2 * i], high: this.#states.i32[2 * i + 1] };
        this.#postSwap(word, seen, wanted);
      });
      if (posted.length === 0) return true;
      yield batch;
      if (posted.length === words.size && this.#allSwapped()) return true;
      open = posted;
      this.#batch.clear();
      this.#postStates(open);
      this.#postDone();
      yield this.#batch;
      if (!this.#isOpen(before)) return false;
    }
    throw new StepwellError('SW_CONTENTION', 'the marks of records cannot be set');
  }

  #allSwapped(): boolean {
    for (let i = 0; i < this.#swapCount; i++)
      if (!swapped(this.#swaps, i * CAS_BYTES)) return false;
    return true;
  }

  /** What may be written at any time: before all that tells of it. */
  #postEntries({ before, decisions }: TurnRecord): void {
    this.#written.ensure(decisions.length * LOG_ENTRY_BYTES);
    let sequence = before;
    decisions.forEach((decision, i) => {
      if (decision.event === 0) return;
      sequence++;
      const at = i * LOG_ENTRY_BYTES;
      encodeEntry(decision, sequence, this.#written, at);
      const entry = this.#pair.geometry.logEntry(sequence);
      this.#batch.write(entry, LOG_ENTRY_BYTES, this.#written, at);
    });
  }

  #postChanges({ before, decisions }: TurnRecord): void {
    const after = before + decisions.filter(({ event }) => event !== 0).length;
    if (after > before) this.#postCount(PAIR.begun, before, after);
    decisions.forEach((decision, i) => {
      // Once it was answered its header is there. If another write of the turn replaced its record,
      // that client may have freed the block, which is in use for something else by now.
      if (decision.event !== LOG_UPDATE || this.#isAnswered(decision, i)) return;
      this.#postHeader(decision, i);
    });
    for (const { last } of netChangesOf(decisions)) {
      const { slot, low, high } = decisions[last];
      this.#postFrom(slot, this.#slotAt(decisions[last], last), low, high);
    }
    decisions.forEach((decision, i) => {
      this.#postReply(decision, i);
    });
    if (after > before) this.#postCount(PAIR.committed, before, after);
  }

  /** No client has read it yet. */
  #postHeader({ low, high, header }: Decision, i: number): void {
    for (let at = 0; at < HEADER_BYTES; at += 8) {
      const [wantedLow, wantedHigh] = [header[at / 4] | 0, header[at / 4 + 1] | 0];
      const seen = i * SEEN_BYTES + HEADER_AT + at;
      this.#postFrom(recordOf({ low, high }) + at, seen, wantedLow, wantedHigh);
    }
  }

  #postReply({ row, number }: Decision, i: number): void {
    const { hashMailbox } = this.#pair.geometry;
    for (let at = 0; at < REPLY_BYTES; at += 8) {
      const seen = i * SEEN_BYTES + REPLY_AT + at;
      const { low, high } = wordIn(this.#record, replyOffset(i) + at);
      this.#postFrom(hashMailbox.reply(row) + at, seen, low, high);
    }
    const { low, high } = wordOf(number);
    this.#postFrom(hashMailbox.answered(row), i * SEEN_BYTES + ANSWERED_AT, low, high);
  }

  /** From what was seen at `seen`, unless that is what is wanted. */
  #postFrom(word: Address, seen: number, low: number, high: number): void {
    const from = wordIn(this.#seen, seen);
    if (from.low !== low || from.high !== high) this.#postSwap(word, from, { low, high });
  }

  #postCount(word: number, from: number, to: number): void {
    this.#postSwap(this.#at(word), wordOf(from), wordOf(to));
  }

  #postRelease(): void {
    const own = wordOf(this.#pair.hashLease.forTurns);
    this.#postSwap(this.#at(PAIR.hashLease), own, { low: 0, high: 0 });
  }

  #postSwap(word: Address, from: Word, to: Word): void {
    const at = CAS_BYTES * this.#swapCount++;
    setWord(this.#swaps, at, from.low, from.high);
    setWord(this.#swaps, at + 8, to.low, to.high);
    this.#batch.cas(word, this.#swaps, at);
  }

  /** The record of the turn before: others may be reading it to do the turn. */
  #retire(before: Word): void {
    const { address, units } = blockOfTurn(before);
    const { reclamation, catalog } = this.#pair;
    if (address === 0 || this.#pair.geometry.isOwnRecord(address)) return;
    reclamation.retire(address, units, catalog);
  }
}
