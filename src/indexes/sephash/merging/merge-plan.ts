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

/** A CurSegment's entries are sorted by a number: their group (`groupOf`), then their position. */
const PLACE_BITS = 12;
const PLACE_MASK = 2 ** PLACE_BITS - 1;

const KEPT = 0;
const DROPPED = 1;
/** Dropped, and not listed, because another dropped entry names the same record. */
const DOUBLE = 2;
/** A dropped entry of Main is noted as its index times this, plus its fate. */
const FATES = 4;

/**
 * Which entries a merge keeps (section 4.2.2): of every key the newest. If that is a tombstone it
 * goes too, since nothing older lies below the MainSegment. `main` is sorted and has no key twice;
 * `current` is in the order of writing. Marks among Main's entries (filter.ts) stay where they are.
 *
 * Entries can have the same key only if their fingerprints and depth bits are the same. If there
 * are such entries and one of them is new, their keys are read, unless all point to one record.
 *
 * Main has thousands of entries, and a client makes a merge every hundred writes. So the planner
 * looks only at entries of Main that may have the key of a new one, and copies the runs between the
 * entries that change. It reuses its arrays.
 */
export class MergePlanner {
  readonly #keys: RecordKeys;
  #main: Int32Array = new Int32Array(0);
  #current: Int32Array = new Int32Array(0);
  /** The CurSegment's entries by group, each group oldest first: see PLACE_BITS. */
  #order = new Uint32Array(0);
  #places = new Uint32Array(0);
  /** For each entry of `#order`, where Main's entries with its fingerprints end. */
  #behind = new Uint32Array(0);
  /** The dropped entries of Main, see FATES. */
  readonly #gone = new IntList();
  #currentFate: Uint8Array = new Uint8Array(0);
  /** Members of groups whose keys must be read, oldest first: indices in Main, or ~index in Cur. */
  readonly #members = new IntList();
  readonly #groupEnds = new IntList();
  /** The members' words, for `RecordKeys.load`. */
  readonly #words = new IntList();
  readonly #kept = new IntList();
  readonly #dropped = new IntList();
  /** Members of a group, each the newest of its key. */
  readonly #newest = new IntList();
  /**
   * Whether a tombstone was judged by keys: the entry of the record that it deletes may then be
   * dropped, too.
   */
  #buries = false;
  /** How many entries have the fate DOUBLE. */
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
    // A record that is neither linked nor retired would leak.
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
    for (const list of [this.#members, this.#groupEnds, this.#words, this.#gone]) list.length = 0;
    for (const list of [this.#kept, this.#dropped]) list.length = 0;
    this.#currentFate = cleared(this.#currentFate, current.length >> 1);
    if (this.#places.length < current.length >> 1) {
      this.#places = new Uint32Array(current.length >> 1);
      this.#behind = new Uint32Array(current.length >> 1);
    }
    let count = 0;
    for (let at = 0; at < current.length; at += 2) {
      if (isPad(current[at + 1])) continue;
      this.#places[count++] = groupOf(current[at + 1]) * 2 ** PLACE_BITS + (at >> 1);
    }
    this.#order = this.#places.subarray(0, count).sort();
  }

  /**
   * Finds the groups: sorted entries that may share a key, and Main's entries of the same group.
   */
  #findGroups(): void {
    const order = this.#order;
    const main = this.#main;
    let from = 0;
    for (let first = 0; first < order.length; ) {
      const group = order[first] >>> PLACE_BITS;
      let end = first + 1;
      while (end < order.length && order[end] >>> PLACE_BITS === group) end++;
      // Both are sorted, and this takes less time than a search for each group.
      const tag = group >>> 4;
      while (2 * from < main.length && tagOf(main[2 * from + 1]) < tag) from++;
      this.#addGroup(group, from, first, end);
      first = end;
    }
  }

  /** `from`: the first entry of Main with these or greater fingerprints. */
  #addGroup(group: number, from: number, first: number, end: number): void {
    const main = this.#main;
    const before = this.#members.length;
    let i = from;
    for (; 2 * i < main.length; i++) {
      const high = main[2 * i + 1];
      if (tagOf(high) !== group >>> 4) break;
      if (groupOf(high) === group && !isPad(high)) this.#addMember(i, main[2 * i], high);
    }
    const alone = this.#members.length === before && end === first + 1;
    for (let at = first; at < end; at++) {
      this.#behind[at] = i;
      const place = this.#order[at] & PLACE_MASK;
      const high = this.#current[2 * place + 1];
      if (!alone) this.#addMember(~place, this.#current[2 * place], high);
      else if (isTombstone(high)) this.#currentFate[place] = DROPPED;
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

  /** Whether the member is a tombstone. Main has none. */
  #isBurial(member: number): boolean {
    return member < 0 && isTombstone(this.#current[2 * ~member + 1]);
  }

  #setFate(member: number, fate: number): void {
    if (member >= 0) this.#gone.push(FATES * member + fate);
    else this.#currentFate[~member] = fate;
  }

  #addMember(member: number, low: number, high: number): void {
    this.#members.push(member);
    this.#words.push(low);
    this.#words.push(high);
  }

  /** Of the groups whose keys were read, drops all but each key's newest entry. */
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

  /** Merges the entries that stay into one sorted list, and lists the dropped ones. */
  #collect(): void {
    const current = this.#current;
    const gone = this.#gone.view();
    if (gone.length > 1) gone.sort();
    const main = new MainRuns(this.#main, gone, this.#kept);
    const drop = (fate: number, low: number, high: number) => this.#drop(fate, low, high);
    for (let at = 0; at < this.#order.length; at++) {
      const i = this.#order[at] & PLACE_MASK;
      const high = current[2 * i + 1];
      const fate = this.#currentFate[i];
      if (fate !== KEPT) {
        this.#drop(fate, current[2 * i], high);
        continue;
      }
      main.copyUpTo(this.#behind[at], drop);
      this.#kept.push(current[2 * i]);
      this.#kept.push(withoutSign(high));
    }
    main.copyUpTo(this.#main.length >> 1, drop);
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

/**
 * Leaves each record once: a tombstone points to the record that it deletes, whose own entry may be
 * dropped too.
 */
function eachOnce(entries: Int32Array): Int32Array {
  const seen = new Set<number>();
  let to = 0;
  for (let at = 0; at < entries.length; at += 2) {
    const record = recordOf(entries[at], entries[at + 1]);
    if (seen.has(record)) continue;
    seen.add(record);
    entries[to++] = entries[at];
    entries[to++] = entries[at + 1];
  }
  return entries.subarray(0, to);
}

function cleared(bytes: Uint8Array, length: number): Uint8Array {
  if (bytes.length < length) return new Uint8Array(2 * length);
  bytes.fill(0, 0, length);
  return bytes;
}

/** Copies the entries of Main that stay, run by run. */
class MainRuns {
  readonly #main: Int32Array;
  /** Sorted. */
  readonly #gone: Int32Array;
  readonly #kept: IntList;
  /** The first entry that was not yet copied, and the first of #gone behind it. */
  #next = 0;
  #nextGone = 0;

  constructor(main: Int32Array, gone: Int32Array, kept: IntList) {
    this.#main = main;
    this.#gone = gone;
    this.#kept = kept;
  }

  /** Copies the entries before `end`, except dropped ones, which it passes to `drop`. */
  copyUpTo(end: number, drop: (fate: number, low: number, high: number) => void): void {
    const main = this.#main;
    for (; this.#nextGone < this.#gone.length; this.#nextGone++) {
      const gone = this.#gone[this.#nextGone];
      const at = Math.floor(gone / FATES);
      if (at >= end) break;
      this.#copy(at);
      drop(gone % FATES, main[2 * at], main[2 * at + 1]);
      this.#next = at + 1;
    }
    this.#copy(end);
  }

  #copy(end: number): void {
    const main = this.#main;
    const from = 2 * this.#next;
    const words = 2 * end - from;
    if (words <= 0) return;
    const kept = this.#kept.room(words);
    const to = this.#kept.length - from;
    for (let at = from; at < 2 * end; at++) kept[to + at] = main[at];
    this.#kept.length += words;
    this.#next = end;
  }
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

  /** The array, grown to have room for `more` items. */
  room(more: number): Int32Array {
    if (this.length + more > this.#items.length) {
      const larger = new Int32Array(2 * (this.length + more));
      larger.set(this.#items.subarray(0, this.length));
      this.#items = larger;
    }
    return this.#items;
  }
}
