import type { Address, Operation } from '../../verbs/index.ts';
import { suffixOf } from '../substrates/directory.ts';
import type { Parts } from '../traversal/parts.ts';
import { SuffixOrder } from '../traversal/suffix-order.ts';
import { MergePlanner } from './merging/merge-plan.ts';
import { RecordKeys } from './merging/record-keys.ts';
import type { SepHashRequest } from './request.ts';
import { ENTRY_UNITS_MAX, fingerprintOf, recordOf, unitsOfEntry } from './segments/entry.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import { Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/** Entries after which a part ends; with smaller CurSegments, for tests, it ends sooner. */
const ENTRIES_PER_PART_MAX = 24;

/**
 * Some fingerprints of a segment at a time: of each key the newest record. The fingerprint, like
 * the suffix, is a key's own for ever. A whole segment as one part has all records that it names,
 * also those that a merge has dropped and the next one will retire.
 */
export class SepHashParts implements Parts<SepHashRequest> {
  readonly order: SuffixOrder;
  readonly unitsMax = ENTRY_UNITS_MAX;
  readonly #table: SepHashTable;
  readonly #isWhole: boolean;
  readonly #snapshot: Snapshot;
  readonly #planner: MergePlanner;
  #entries: readonly Int32Array[] = [];

  /** Raises SW_INVALID_ARGUMENT for what is no cursor. */
  constructor(table: SepHashTable, cursor = 0, isWhole = false) {
    this.order = new SuffixOrder({ end: FINGERPRINTS, step: 1 }, cursor);
    this.#table = table;
    this.#isWhole = isWhole;
    this.#snapshot = new Snapshot(table);
    this.#planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
  }

  *read(): Operation<void> {
    const { suffix, at } = this.order.position;
    const snapshot = this.#snapshot;
    yield* snapshot.take(suffix);
    const end = this.#isWhole ? FINGERPRINTS : this.#partEnd(at);
    this.#entries = this.#isWhole
      ? [snapshot.current, yield* snapshot.entries()]
      : [yield* this.#newest(at, end)];
    this.order.arrive(snapshot.main.depth, end);
  }

  /**
   * Reads one part of a segment, wherever that may be by now, for a sample. Behind the highest
   * fingerprints come the lowest ones, which would be met less often than all others.
   */
  *readFrom(suffix: number, fingerprint: number): Operation<void> {
    yield* this.#snapshot.take(suffix);
    const end = this.#partEnd(fingerprint);
    const entries = yield* this.#newest(fingerprint, end);
    this.#entries = [entries];
    const missing = this.#enough - (entries.length >> 1);
    if (end < FINGERPRINTS || missing <= 0 || fingerprint === 0) return;
    const lowest = Math.min(fingerprint, this.#partEnd(0, missing));
    // The next plan is made where this one stands.
    this.#entries = [entries.slice(), yield* this.#newest(0, lowest)];
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const entries of this.#entries) {
      for (let at = 0; at < entries.length; at += 2) {
        visit(recordOf(entries[at], entries[at + 1]), unitsOfEntry(entries[at + 1]), false);
      }
    }
  }

  isHere({ hash }: SepHashRequest): boolean {
    return this.order.holds(hash.h1);
  }

  /** Whether a key with this hash is of the segment that was read. */
  isOfSegment(hash: number): boolean {
    const { suffix, depth } = this.#snapshot.main;
    return suffixOf(hash, depth) === suffix;
  }

  eachBlock(visit: (address: Address) => void): void {
    const { header, main, mainBlock } = this.#snapshot;
    for (const block of [header, main.slots, mainBlock]) visit(block);
  }

  get #enough(): number {
    return Math.min(ENTRIES_PER_PART_MAX, this.#table.geometry.slots);
  }

  #partEnd(from: number, enough = this.#enough): number {
    const { ends, current } = this.#snapshot;
    const recent = new Uint16Array(FINGERPRINTS);
    for (let at = 1; at < current.length; at += 2) recent[fingerprintOf(current[at])]++;
    let entries = 0;
    let end = from;
    do {
      entries += recent[end] + ends[end] - (end === 0 ? 0 : ends[end - 1]);
      end++;
    } while (end < FINGERPRINTS && entries < enough);
    return end;
  }

  /** The entries of fingerprints [from, end) that hold the newest record of a key. */
  *#newest(from: number, end: number): Operation<Int32Array> {
    const { ends, current } = this.#snapshot;
    const recent = new Int32Array(current.length);
    let length = 0;
    for (let at = 0; at < current.length; at += 2) {
      const fingerprint = fingerprintOf(current[at + 1]);
      if (fingerprint < from || fingerprint >= end) continue;
      recent[length++] = current[at];
      recent[length++] = current[at + 1];
    }
    const main = yield* this.#snapshot.range(from === 0 ? 0 : ends[from - 1], ends[end - 1]);
    return (yield* this.#planner.plan(main, recent.subarray(0, length))).kept;
  }
}
