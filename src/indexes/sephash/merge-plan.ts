import type { Operation } from '../../verbs/index.ts';
import { depthBitsOf, isTombstone, recordOf, tagOf, withoutSign } from './entry.ts';
import type { RecordKeys } from './record-keys.ts';

/** Entries as pairs of halves: low, high, low, high … */
export interface MergePlan {
  /** What stays, sorted by fingerprints. */
  kept: Int32Array;
  /** What is superseded or deleted, each record once. */
  dropped: Int32Array;
}

/**
 * Which entries a merge keeps (section 4.2.2): of every key the newest, unless it is a tombstone,
 * below which there is nothing older than the MainSegment. `main` is sorted and has no key twice;
 * `current` is in the order of writing.
 *
 * Only entries with the same fingerprints and depth bits can have the same key; where there are
 * such, and one of them is new, the keys are read.
 */
export function* planMerge(
  main: Int32Array,
  current: Int32Array,
  keys: RecordKeys,
): Operation<MergePlan> {
  const groups = groupCurrent(current);
  addMain(groups, main);
  const outcome = new Outcome(main, current);
  const doubtful: Group[] = [];
  for (const group of groups.values()) {
    if (group.main.length + group.current.length > 1) doubtful.push(group);
    else if (isTombstone(current[group.current[0] + 1])) outcome.dropCurrent(group.current[0]);
  }
  if (doubtful.length > 0) yield* resolve(doubtful, main, current, keys, outcome);
  return outcome.plan();
}

/** Offsets of entries with the same fingerprints and depth bits, oldest first. */
interface Group {
  main: number[];
  current: number[];
}

function groupKey(high: number): number {
  return tagOf(high) * 16 + depthBitsOf(high);
}

function groupCurrent(current: Int32Array): Map<number, Group> {
  const groups = new Map<number, Group>();
  for (let at = 0; at < current.length; at += 2) {
    const key = groupKey(current[at + 1]);
    const group = groups.get(key);
    if (group) group.current.push(at);
    else groups.set(key, { main: [], current: [at] });
  }
  return groups;
}

function addMain(groups: Map<number, Group>, main: Int32Array): void {
  for (const [key, group] of groups) {
    const tag = key >> 4;
    for (let at = firstOf(main, tag); at < main.length && tagOf(main[at + 1]) === tag; at += 2) {
      if (groupKey(main[at + 1]) === key) group.main.push(at);
    }
  }
}

/** Where the entries with these fingerprints, or later ones, begin. */
function firstOf(main: Int32Array, tag: number): number {
  let low = 0;
  let high = main.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tagOf(main[2 * middle + 1]) < tag) low = middle + 1;
    else high = middle;
  }
  return 2 * low;
}

/** Reads the keys of doubtful groups and drops all but the newest entry of each key. */
function* resolve(
  doubtful: readonly Group[],
  main: Int32Array,
  current: Int32Array,
  keys: RecordKeys,
  outcome: Outcome,
): Operation<void> {
  const entries = doubtful.flatMap((group) => [
    ...group.main.flatMap((at) => [main[at], main[at + 1]]),
    ...group.current.flatMap((at) => [current[at], current[at + 1]]),
  ]);
  const texts = yield* keys.texts(entries);
  let end = 0;
  for (const group of doubtful) {
    end += group.main.length + group.current.length;
    let next = end;
    const newest = new Set<string>();
    for (const at of group.current.toReversed()) {
      const text = texts[--next];
      if (newest.has(text) || isTombstone(current[at + 1])) outcome.dropCurrent(at);
      newest.add(text);
    }
    for (const at of group.main.toReversed()) if (newest.has(texts[--next])) outcome.dropMain(at);
  }
}

/** Collects what is dropped and puts together what is kept. */
class Outcome {
  readonly #main: Int32Array;
  readonly #current: Int32Array;
  readonly #mainDropped: Uint8Array;
  readonly #currentDropped: Uint8Array;
  /** By record: a tombstone points to the record that it deletes. */
  readonly #dropped = new Map<number, [low: number, high: number]>();

  constructor(main: Int32Array, current: Int32Array) {
    this.#main = main;
    this.#current = current;
    this.#mainDropped = new Uint8Array(main.length);
    this.#currentDropped = new Uint8Array(current.length);
  }

  dropMain(at: number): void {
    this.#mainDropped[at] = 1;
    this.#note(this.#main[at], this.#main[at + 1]);
  }

  dropCurrent(at: number): void {
    this.#currentDropped[at] = 1;
    this.#note(this.#current[at], this.#current[at + 1]);
  }

  #note(low: number, high: number): void {
    this.#dropped.set(recordOf(low, high), [low, withoutSign(high)]);
  }

  plan(): MergePlan {
    const added = this.#addedInOrder();
    const kept = new Int32Array(this.#main.length + 2 * added.length);
    let end = 0;
    let next = 0;
    const put = (low: number, high: number) => {
      kept[end++] = low;
      kept[end++] = high;
    };
    const addBefore = (tag: number) => {
      for (; next < added.length && tagOf(added[next][1]) < tag; next++) put(...added[next]);
    };
    for (let at = 0; at < this.#main.length; at += 2) {
      if (this.#mainDropped[at] === 1) continue;
      addBefore(tagOf(this.#main[at + 1]));
      put(this.#main[at], this.#main[at + 1]);
    }
    addBefore(Number.POSITIVE_INFINITY);
    return {
      kept: kept.subarray(0, end),
      dropped: Int32Array.from([...this.#dropped.values()].flat()),
    };
  }

  #addedInOrder(): [number, number][] {
    const added: [number, number][] = [];
    for (let at = 0; at < this.#current.length; at += 2) {
      if (this.#currentDropped[at] === 1) continue;
      added.push([this.#current[at], withoutSign(this.#current[at + 1])]);
    }
    return added.sort((a, b) => tagOf(a[1]) - tagOf(b[1]));
  }
}
