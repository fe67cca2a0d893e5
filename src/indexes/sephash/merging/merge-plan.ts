import { invariant } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import {
  depthBitsOf,
  isPad,
  isTombstone,
  recordOf,
  tagOf,
  withoutSign,
} from '../segments/entry.ts';
import type { RecordKeys } from './record-keys.ts';

/** Entries as pairs of halves: low, high, low, high … Valid until the next plan is made. */
export interface MergePlan {
  /** What stays, sorted by fingerprints. */
  kept: Int32Array;
  /** What is superseded or deleted, each record once. */
  dropped: Int32Array;
}

/** Entries of a CurSegment are sorted by a number: what may have one key, then their place. */
const PLACE_BITS = 12;
const PLACE_MASK = 2 ** PLACE_BITS - 1;

const KEPT = 0;
const DROPPED = 1;
/** Dropped, and another dropped entry names its record. */
const DOUBLE = 2;

/**
 * Which entries a merge keeps (section 4.2.2): of every key the newest. If that is a tombstone it
 * goes too, since nothing older lies below the MainSegment. `main` is sorted and has no key twice;
 * `current` is in the order of writing.
 *
 * Entries can have the same key only if their fingerprints and depth bits are the same. Where there
 * are such entries, and one of them is new, the keys are read, unless all point to one record.
 *
 * Every merge looks at thousands of entries, and a client makes one every hundred writes, so the
 * planner works in arrays that it keeps. With a list for each group and a string for each key, it
 * took a quarter of the cost of a write in shared memory.
 */
export class MergePlanner {
  readonly #keys: RecordKeys;
  #main: Int32Array = new Int32Array(0);
  #current: Int32Array = new Int32Array(0);
  /** Entries of the CurSegment by what may have one key, the oldest first: see PLACE_BITS. */
  #order = new Uint32Array(0);
  #places = new Uint32Array(0);
  #mainFate: Uint8Array = new Uint8Array(0);
  #currentFate: Uint8Array = new Uint8Array(0);
  /** Members of doubtful groups, oldest first: entries of Main, and of Cur as complements. */
  readonly #members = new IntList();
  readonly #groupEnds = new IntList();
  /** Their words, for the reading of keys. */
  readonly #words = new IntList();
  readonly #kept = new IntList();
  readonly #dropped = new IntList();
  /** Members of a group, each the newest of its key. */
  readonly #newest = new IntList();
  /** Whether a tombstone was judged by keys: its record's own entry may be dropped beside it. */
  #buries = false;
  /** How many entries are dropped whose record another dropped one names. */
  #doubles = 0;

  constructor(keys: RecordKeys) {
    this.#keys = keys;
  }

  *plan(main: Int32Array, current: Int32Array): Operation<MergePlan> {
    this.#begin(main, current);
    this.#findGroups();
    if (this.#members.length > 0) {
      yield* this.#keys.load(this.#words.view());
      this.#resolve();
    }
    this.#collect();
    // A record that is neither linked any more nor retired would be lost.
    const all = 2 * this.#order.length + this.#main.length;
    const planned = this.#kept.length + this.#dropped.length + 2 * this.#doubles;
    invariant(planned === all, 'a merge loses entries');
    const dropped = this.#dropped.view();
    return { kept: this.#kept.view(), dropped: this.#buries ? eachOnce(dropped) : dropped };
  }

  #begin(main: Int32Array, current: Int32Array): void {
    this.#main = main;
    this.#current = current;
    this.#buries = false;
    this.#doubles = 0;
    for (const list of [this.#members, this.#groupEnds, this.#words, this.#kept, this.#dropped]) {
      list.length = 0;
    }
    this.#mainFate = cleared(this.#mainFate, main.length >> 1);
    this.#currentFate = cleared(this.#currentFate, current.length >> 1);
    if (this.#places.length < current.length >> 1) {
      this.#places = new Uint32Array(current.length >> 1);
    }
    let count = 0;
    for (let at = 0; at < current.length; at += 2) {
      if (isPad(current[at + 1])) continue;
      this.#places[count++] = groupOf(current[at + 1]) * 2 ** PLACE_BITS + (at >> 1);
    }
    this.#order = this.#places.subarray(0, count).sort();
  }

  /** Runs of the sorted entries that may have one key, with what Main has of the kind. */
  #findGroups(): void {
    const order = this.#order;
    for (let first = 0; first < order.length; ) {
      const group = order[first] >>> PLACE_BITS;
      let end = first + 1;
      while (end < order.length && order[end] >>> PLACE_BITS === group) end++;
      this.#addGroup(group, first, end);
      first = end;
    }
  }

  #addGroup(group: number, first: number, end: number): void {
    const main = this.#main;
    const tag = group >>> 4;
    const before = this.#members.length;
    for (let i = firstOf(main, tag); 2 * i < main.length; i++) {
      const high = main[2 * i + 1];
      if (tagOf(high) !== tag) break;
      if (groupOf(high) === group) this.#addMember(i, main[2 * i], high);
    }
    const alone = this.#members.length === before && end === first + 1;
    for (let at = first; at < end; at++) {
      const i = this.#order[at] & PLACE_MASK;
      const high = this.#current[2 * i + 1];
      if (!alone) this.#addMember(~i, this.#current[2 * i], high);
      else if (isTombstone(high)) this.#currentFate[i] = DROPPED;
    }
    if (alone || this.#resolveSameRecord(before)) return;
    this.#groupEnds.push(this.#members.length);
  }

  /**
   * Takes a group back from the lists if all of its members point to one record. Most such groups
   * are a record's entry and its tombstone. They have the same key, because no block is reused
   * while an entry points to it, so no record has to be read. In a full store half of a CurSegment
   * is tombstones, and most of a merge's READs were of such pairs.
   */
  #resolveSameRecord(first: number): boolean {
    const last = this.#members.length - 1;
    const record = this.#recordOf(last);
    for (let at = first; at < last; at++) if (this.#recordOf(at) !== record) return false;
    const newest = this.#members.at(last);
    const isBuried = this.#isBurial(newest);
    for (let at = first; at < last; at++) {
      this.#setFate(this.#members.at(at), isBuried ? DOUBLE : DROPPED);
    }
    if (isBuried) this.#setFate(newest, DROPPED);
    this.#members.length = first;
    this.#words.length = 2 * first;
    return true;
  }

  #recordOf(at: number): number {
    return recordOf(this.#words.at(2 * at), this.#words.at(2 * at + 1));
  }

  /** Whether the member is a tombstone: those are never in Main. */
  #isBurial(member: number): boolean {
    return member < 0 && isTombstone(this.#current[2 * ~member + 1]);
  }

  #setFate(member: number, fate: number): void {
    if (member >= 0) this.#mainFate[member] = fate;
    else this.#currentFate[~member] = fate;
  }

  #addMember(member: number, low: number, high: number): void {
    this.#members.push(member);
    this.#words.push(low);
    this.#words.push(high);
  }

  /** Drops all but the newest entry of each key of the doubtful groups, whose keys are loaded. */
  #resolve(): void {
    for (let group = 0, first = 0; group < this.#groupEnds.length; group++) {
      const end = this.#groupEnds.at(group);
      this.#newest.length = 0;
      for (let at = end - 1; at >= first; at--) this.#judge(at);
      first = end;
    }
  }

  #judge(at: number): void {
    const member = this.#members.at(at);
    const superseded = this.#isOlder(at);
    if (!superseded) this.#newest.push(at);
    const isBuried = this.#isBurial(member);
    if (isBuried) this.#buries = true;
    if (superseded || isBuried) this.#setFate(member, DROPPED);
  }

  /** Whether a newer member of the group has the same key. */
  #isOlder(at: number): boolean {
    for (let i = 0; i < this.#newest.length; i++) {
      if (this.#keys.same(this.#newest.at(i), at)) return true;
    }
    return false;
  }

  /** Puts the entries that stay together, and lists the others. */
  #collect(): void {
    const current = this.#current;
    let next = 0;
    for (let at = 0; at < this.#order.length; at++) {
      const i = this.#order[at] & PLACE_MASK;
      const high = current[2 * i + 1];
      const fate = this.#currentFate[i];
      if (fate !== KEPT) {
        this.#drop(fate, current[2 * i], high);
        continue;
      }
      next = this.#collectMain(next, firstOf(this.#main, tagOf(high) + 1));
      this.#kept.push(current[2 * i]);
      this.#kept.push(withoutSign(high));
    }
    this.#collectMain(next, this.#main.length >> 1);
  }

  /** Entries [from, end) of Main. */
  #collectMain(from: number, end: number): number {
    const main = this.#main;
    const fate = this.#mainFate;
    const kept = this.#kept.room(2 * (end - from));
    let to = this.#kept.length;
    for (let i = from; i < end; i++) {
      if (fate[i] === KEPT) {
        kept[to++] = main[2 * i];
        kept[to++] = main[2 * i + 1];
      } else {
        this.#drop(fate[i], main[2 * i], main[2 * i + 1]);
      }
    }
    this.#kept.length = to;
    return Math.max(from, end);
  }

  #drop(fate: number, low: number, high: number): void {
    if (fate === DOUBLE) {
      this.#doubles++;
      return;
    }
    this.#dropped.push(low);
    this.#dropped.push(withoutSign(high));
  }
}

/** Fingerprints and depth bits, which are equal in all entries with the same key. */
function groupOf(high: number): number {
  return tagOf(high) * 16 + depthBitsOf(high);
}

/** The first entry with these fingerprints, or later ones. */
function firstOf(main: Int32Array, tag: number): number {
  let low = 0;
  let high = main.length >> 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tagOf(main[2 * middle + 1]) < tag) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A tombstone points to the record that it deletes, whose own entry may be dropped too. */
function eachOnce(entries: Int32Array): Int32Array {
  const seen = new Set<number>();
  const once: number[] = [];
  for (let at = 0; at < entries.length; at += 2) {
    const record = recordOf(entries[at], entries[at + 1]);
    if (seen.has(record)) continue;
    seen.add(record);
    once.push(entries[at], entries[at + 1]);
  }
  return Int32Array.from(once);
}

function cleared(bytes: Uint8Array, length: number): Uint8Array {
  if (bytes.length < length) return new Uint8Array(2 * length);
  bytes.fill(0, 0, length);
  return bytes;
}

/** Integers in an array that is kept from one use to the next. */
class IntList {
  length = 0;
  #items = new Int32Array(256);

  push(item: number): void {
    if (this.length === this.#items.length) this.room(1);
    this.#items[this.length++] = item;
  }

  at(i: number): number {
    return this.#items[i];
  }

  view(): Int32Array {
    return this.#items.subarray(0, this.length);
  }

  /** The array with room for so many more. */
  room(more: number): Int32Array {
    if (this.length + more > this.#items.length) {
      const larger = new Int32Array(2 * (this.length + more));
      larger.set(this.#items.subarray(0, this.length));
      this.#items = larger;
    }
    return this.#items;
  }
}
