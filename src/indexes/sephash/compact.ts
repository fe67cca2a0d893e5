import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
} from '../../verbs/index.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { mergeSealed, seal } from './merging/merge.ts';
import { isTombstone } from './segments/entry.ts';
import { epochOf, isClosed, mainOf, metaHigh, metaLow } from './segments/header.ts';
import { claimMain, isPoolFull } from './segments/main-blocks.ts';
import { mainBytes, parseMainHeader, setMarks, writeHome } from './segments/main-segment.ts';
import { Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/** The first merge takes the CurSegment's entries; the second retires what the first dropped. */
const MERGES_PER_SEGMENT = 2;
/** `some` looks at this many segments, and merges the one that seems to free most. */
const CANDIDATES = 8;

/**
 * Merges all segments of a full pool, without waiting for writers to fill their CurSegments. Until
 * a CurSegment is full its tombstones keep the records that they delete, and what a merge drops
 * waits for the next one. When all keys have been deleted, each segment still has two CurSegments
 * of dead records, which pin nearly every chunk to its block size.
 *
 * A client seals a CurSegment by filling its empty entries with pads, which say nothing. To writers
 * a pad is an entry that another client has taken, so they go on meanwhile. If the client dies
 * here, the CurSegment only fills sooner.
 *
 * **Without memory.** A merge writes a new MainSegment, and a full pool may have no block for it.
 * The index owns one spare place, behind its directory. The merge writes the MainSegment there. Its
 * header names the old one's block, which the segment keeps: its home. When no reader can hold the
 * old MainSegment any more, the client copies the new one to the home, and a CAS on the metadata
 * leads back:
 *
 *   [WRITE spare; CAS (home, epoch k) to (spare, k + 1)] -> grace
 *     -> READ spare -> [WRITE home; CAS (spare, k + 1) to (home, k + 1)] -> grace
 *
 *   - An append meets the return: CurSegment and epoch stay, so its entry counts as before. Its
 *     mark may come too late for the copy. So all marks of the copy are set, and searches read the
 *     CurSegment until the next merge.
 *   - A search meets the return: the metadata differ from those it relies on, so it begins again.
 *   - A merge publishes before the return: it retires the home, which the header names, and the CAS
 *     of the return fails. Overwriting the home is safe, because it still waits in a limbo: this
 *     client has not left its epoch since it read the metadata that led to it.
 *   - A merge has read the spare place before the return: its CAS fails.
 *   - A reader still reads the spare place: it is written again only after a grace period.
 *   - The compacting client dies: the next one finds the segment by its header and brings it home
 *     before it uses the place itself. Until then the header keeps the home reachable for sweeps.
 *
 * One client compacts at a time: the one that the pool names as its sweeper.
 *
 * **Room at home.** The next merge must fit the home again, or the segment could take no more
 * deletions. A block has room for one CurSegment of new keys (`geometry.mainUnits`); a merge by way
 * of the spare place uses it up. If less than that is left, the merge closes the segment. Until a
 * merge finds a block with room, insertions and updates treat a closed segment as full, and only
 * deletions take its entries. Merging deletions adds nothing: each moves one entry to the dropped
 * ones. The word that publishes the merge also closes the segment, so no insertion comes in
 * between. A merge for an insertion closes no segment: the insertion could not use it.
 */
export class Compaction {
  readonly #table: SepHashTable;
  /**
   * Waits for a grace period. Only the sweeper has it; other clients do not use the spare place.
   */
  readonly #grace: (() => Operation<boolean>) | undefined;
  /** Whether a deletion waits for this compaction. */
  readonly #forDeletion: boolean;
  readonly #snapshot: Snapshot;
  /** No client reads the spare place, and no segment uses it. */
  #spareIsFree = false;
  /** A living client does not leave its epoch, so no segment can be brought home. */
  #isStuck = false;

  constructor(
    table: SepHashTable,
    grace: (() => Operation<boolean>) | undefined,
    forDeletion: boolean,
  ) {
    this.#table = table;
    this.#grace = grace;
    this.#forDeletion = forDeletion;
    this.#snapshot = new Snapshot(table);
  }

  /** Returns how many segments it has merged. */
  *run(): Operation<number> {
    const { reclamation } = this.#table;
    let merged = 0;
    for (let suffix: number | undefined = 0; suffix !== undefined && !this.#isStuck; ) {
      if (yield* this.#compact(suffix)) merged++;
      const { suffix: own, depth } = this.#snapshot.main;
      suffix = nextSuffix(own, depth);
      // The blocks that the merges have retired are needed for the next ones.
      yield* reclamation.quiesce();
      yield* reclamation.collect();
    }
    return merged;
  }

  /**
   * Of the next few segments, merges the one that seems to hold the most dead records, to free
   * their blocks. Any client may: it uses neither the spare place nor a grace period. `next` is the
   * segment where the next call begins; `merged` tells whether this one merged any.
   */
  *some(from: number): Operation<{ next: number; merged: boolean }> {
    let most = 0;
    let best = from;
    let suffix = from;
    for (let seen = 0; seen < CANDIDATES; seen++) {
      yield* this.#snapshot.take(suffix);
      const { main, current } = this.#snapshot;
      // Any entry may replace a record; a tombstone certainly deletes one.
      const freed = main.dropped + current.length / 2 + deletedBy(current);
      if (freed > most) [most, best] = [freed, main.suffix];
      suffix = nextSuffix(main.suffix, main.depth) ?? 0;
      if (suffix === from) break;
    }
    return { next: suffix, merged: most > 0 && (yield* this.#compact(best)) };
  }

  /** Whether the segment was merged. */
  *#compact(suffix: number): Operation<boolean> {
    for (let merges = 0; ; merges++) {
      yield* this.#snapshot.take(suffix);
      const { current, main, isFull } = this.#snapshot;
      const isCompact = current.length === 0 && main.dropped === 0 && !isFull;
      if (isCompact || merges === MERGES_PER_SEGMENT) return merges > 0;
      if (!(yield* this.#mergeOnce(suffix))) return merges > 0;
    }
  }

  /** False when there is no memory for it. */
  *#mergeOnce(suffix: number): Operation<boolean> {
    if (this.#grace === undefined && !(yield* this.#hasBlock())) return false;
    if (yield* this.#sealAndMerge(0)) return true;
    if (this.#grace === undefined || !(yield* this.#freeSpare())) return false;
    yield* this.#snapshot.take(suffix);
    if (!this.#forDeletion && this.#wouldClose()) return false;
    if (!(yield* this.#sealAndMerge(this.#table.directory.parts.spare))) return false;
    yield* this.#bringHome(suffix);
    return true;
  }

  /**
   * Whether there is a block for a MainSegment of what the snapshot holds. Without the spare place
   * this must be known before the CurSegment is padded: one that stays full would take no deletion.
   */
  *#hasBlock(): Operation<boolean> {
    const { main, current } = this.#snapshot;
    const dropped = deletedBy(current);
    const kept = Math.max(0, main.count + current.length / 2 - 2 * dropped);
    try {
      yield* claimMain(this.#table, { kept, dropped }, true);
      return true;
    } catch (error) {
      if (!isPoolFull(error)) throw error;
      return false;
    }
  }

  /** Whether a merge into the same block might leave too little room for the next one. */
  #wouldClose(): boolean {
    const { main, current } = this.#snapshot;
    const keys = main.count + current.length / 2 - deletedBy(current);
    return !this.#table.geometry.hasRoom(main.units, keys);
  }

  /** Seals and merges the snapshot's segment; false when there is no memory for its MainSegment. */
  *#sealAndMerge(spare: Address): Operation<boolean> {
    const { request, main } = this.#snapshot;
    request.slots = main.slots;
    request.forDeletion = true;
    yield* seal(this.#table, request);
    try {
      yield* mergeSealed(this.#table, request, spare);
      return true;
    } catch (error) {
      if (!isPoolFull(error)) throw error;
      return false;
    }
  }

  /**
   * Makes sure that no segment is in the spare place: a client may have died while it compacted.
   */
  *#freeSpare(): Operation<boolean> {
    for (let suffix: number | undefined = 0; suffix !== undefined && !this.#spareIsFree; ) {
      yield* this.#snapshot.take(suffix);
      const { suffix: own, depth, home } = this.#snapshot.main;
      if (home !== 0 && !(yield* this.#bringHome(suffix))) return false;
      suffix = nextSuffix(own, depth);
    }
    if (!this.#spareIsFree) this.#spareIsFree = yield* this.#awaitGrace();
    return this.#spareIsFree;
  }

  /** Brings the segment back from the spare place, if it is there; false when that must wait. */
  *#bringHome(suffix: number): Operation<boolean> {
    this.#spareIsFree = false;
    if (!(yield* this.#awaitGrace())) return false;
    yield* this.#snapshot.take(suffix);
    if (this.#snapshot.main.home !== 0) yield* this.#copyHome();
    this.#spareIsFree = yield* this.#awaitGrace();
    return this.#spareIsFree;
  }

  *#awaitGrace(): Operation<boolean> {
    const passed = this.#grace !== undefined && (yield* this.#grace());
    this.#isStuck = !passed;
    return passed;
  }

  *#copyHome(): Operation<void> {
    const { header, metaLow: low, metaHigh: high, main } = this.#snapshot;
    const { count, dropped, suffix, depth, units, home } = main;
    const { chunks, catalog, geometry } = this.#table;
    const spare = mainOf(low, high);
    invariant(spare === this.#table.directory.parts.spare, `a MainSegment at ${spare} has a home`);
    const entries = count + dropped;
    const isBounded = count >= 0 && dropped >= 0 && entries <= geometry.homeEntries(units);
    invariant(isBounded, `segment ${suffix}: ${count} entries and ${dropped} of ${units} units`);
    const isBlock = yield* chunks.holdsBlock(home, units, catalog);
    invariant(isBlock, `segment ${suffix}: ${home} is no block of a MainSegment`);
    const bytes = mainBytes(entries + geometry.marks);
    const image = new Scratch(bytes);
    const batch = new Batch();
    yield batch.read(spare, bytes, image, 0);
    invariant(parseMainHeader(image, 0).home === home, 'a spare place that two segments use');
    invariant(home !== spare, 'the home of a MainSegment is the spare place');
    writeHome(image, 0);
    setMarks(image, geometry.marks, 1);
    const words = new Scratch(CAS_BYTES);
    setWord(words, 0, low, high);
    setWord(words, 8, metaLow(home), metaHigh(home, depth, epochOf(high), isClosed(high)));
    yield batch.clear().write(home, bytes, image, 0).cas(header, words, 0);
  }
}

/** How many entries of a CurSegment delete a record. */
function deletedBy(entries: Int32Array): number {
  let deleted = 0;
  for (let at = 1; at < entries.length; at += 2) if (isTombstone(entries[at])) deleted++;
  return deleted;
}
