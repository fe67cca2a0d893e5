import { KEY_BYTES_AND_KIND } from '../../records/layout.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { DEPTH_MAX } from './geometry.ts';
import { MergePlanner } from './merging/merge-plan.ts';
import { RecordKeys } from './merging/record-keys.ts';
import type { SepHashRequest } from './request.ts';
import { ENTRY_UNITS_MAX, fingerprintOf, recordOf, unitsOfEntry } from './segments/entry.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import { Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/** Entries after which a step ends; with smaller CurSegments, for tests, it ends sooner. */
const ENTRIES_PER_STEP_MAX = 24;

/** The keys whose hashes end with `suffix` (of `depth` bits), from a fingerprint on. */
export interface WalkPosition {
  suffix: number;
  depth: number;
  fingerprint: number;
}

export const WALK_START: Readonly<WalkPosition> = { suffix: 0, depth: 0, fingerprint: 0 };

/**
 * A walk over all records, some fingerprints of a segment at a time. It goes through the suffixes
 * in the order of their reversed bits and through the fingerprints in each. Both are a key's own
 * for ever. So a key that is present during the whole walk is handed out exactly once, whatever is
 * merged and split meanwhile.
 */
export class SepHashWalk implements IndexWalk {
  readonly #table: SepHashTable;
  #request: SepHashRequest;
  readonly #snapshot: Snapshot;
  readonly #planner: MergePlanner;
  /** Halves of segments that were split while the walk was in them; the next one last. */
  readonly #halves: WalkPosition[] = [];
  #position: WalkPosition | undefined;

  constructor(table: SepHashTable, position: WalkPosition, request = table.newRequest()) {
    this.#table = table;
    this.#request = request;
    this.#snapshot = new Snapshot(table);
    this.#planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
    this.#position = position;
  }

  get done(): boolean {
    return this.#position === undefined;
  }

  get cursor(): number {
    return encodeCursor(this.#position);
  }

  *next(
    visit: (request: SepHashRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const position = this.#position as WalkPosition;
    yield* this.#snapshot.take(position.suffix);
    const { depth } = this.#snapshot.main;
    if (depth > position.depth && position.fingerprint > 0) return this.#descend(position);
    if (position.fingerprint === 0) position.depth = depth;
    const end = this.#stepEnd(position.fingerprint);
    const entries = yield* this.#entries(position.fingerprint, end);
    yield* this.#visitEntries(position, entries, visit, keysOnly);
    position.fingerprint = end;
    if (end === FINGERPRINTS) this.#position = this.#halves.pop() ?? following(position);
  }

  /**
   * Visits the records of one step at the segment's own depth, wherever that may be by now. Behind
   * the highest fingerprints come the lowest ones, which would be met less often than all others.
   */
  *sample(
    { suffix, fingerprint }: Omit<WalkPosition, 'depth'>,
    request: SepHashRequest,
    visit: (request: SepHashRequest, keyBytes: number) => void,
  ): Operation<void> {
    this.#request = request;
    yield* this.#snapshot.take(suffix);
    const { depth } = this.#snapshot.main;
    const place = { suffix: suffix & (2 ** depth - 1), depth, fingerprint };
    const end = this.#stepEnd(fingerprint);
    const entries = yield* this.#entries(fingerprint, end);
    yield* this.#visitEntries(place, entries, visit, true);
    const missing = this.#enough - (entries.length >> 1);
    if (end < FINGERPRINTS || missing <= 0 || fingerprint === 0) return;
    const lowest = Math.min(fingerprint, this.#stepEnd(0, missing));
    yield* this.#visitEntries(place, yield* this.#entries(0, lowest), visit, true);
  }

  /** The segment has been split since: go through one half after the other, from here on. */
  #descend({ suffix, depth, fingerprint }: WalkPosition): void {
    this.#halves.push({ suffix: suffix + 2 ** depth, depth: depth + 1, fingerprint });
    this.#position = { suffix, depth: depth + 1, fingerprint };
  }

  get #enough(): number {
    return Math.min(ENTRIES_PER_STEP_MAX, this.#table.geometry.slots);
  }

  #stepEnd(from: number, enough = this.#enough): number {
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
  *#entries(from: number, end: number): Operation<Int32Array> {
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

  /** Reads the records of entries together; long ones afterwards, one by one. */
  *#visitEntries(
    position: WalkPosition,
    entries: Int32Array,
    visit: (request: SepHashRequest, keyBytes: number) => void,
    keysOnly: boolean,
  ): Operation<void> {
    if (entries.length === 0) return;
    const { incoming, batch } = this.#request;
    batch.clear();
    const offsets: number[] = [];
    const long: Address[] = [];
    let bytes = 0;
    for (let at = 0; at < entries.length; at += 2) {
      const units = unitsOfEntry(entries[at + 1]);
      offsets.push(bytes);
      if (units < ENTRY_UNITS_MAX) bytes += units * UNIT_BYTES;
      else long.push(recordOf(entries[at], entries[at + 1]));
    }
    incoming.ensure(bytes);
    for (let at = 0; at < entries.length; at += 2) {
      const units = unitsOfEntry(entries[at + 1]);
      if (units === ENTRY_UNITS_MAX) continue;
      const record = recordOf(entries[at], entries[at + 1]);
      batch.read(record, units * UNIT_BYTES, incoming, offsets[at >> 1]);
    }
    if (batch.length > 0) yield batch;
    for (let at = 0; at < entries.length; at += 2) {
      if (unitsOfEntry(entries[at + 1]) === ENTRY_UNITS_MAX) continue;
      yield* this.#visitRecord(position, offsets[at >> 1], visit, keysOnly);
    }
    const { seed } = this.#table.geometry.shape;
    for (const record of long) {
      yield* this.#table.records.adopt(this.#request, record, ENTRY_UNITS_MAX, seed);
      yield* this.#visitRecord(position, 0, visit, keysOnly);
    }
  }

  *#visitRecord(
    { suffix, depth }: WalkPosition,
    at: number,
    visit: (request: SepHashRequest, keyBytes: number) => void,
    keysOnly: boolean,
  ): Operation<void> {
    const request = this.#request;
    const { records, geometry } = this.#table;
    const keyBytes = request.incoming.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    request.adoptKey(request.incoming, at, keyBytes, geometry.shape.seed);
    if ((request.hash.h1 & (2 ** depth - 1)) !== suffix) return;
    if (!keysOnly) yield* records.complete(request);
    visit(request, keyBytes);
  }
}

function following({ suffix, depth }: WalkPosition): WalkPosition | undefined {
  const next = nextSuffix(suffix, depth);
  return next === undefined ? undefined : { suffix: next, depth, fingerprint: 0 };
}

/** Fields of a cursor: 0 stands for the start and for the end. */
const FINGERPRINT_VALUES = 2 ** 8;
const SUFFIX_VALUES = 2 ** 24;
/** In the lowest bits, to tell cursors from most other numbers. */
const MARK = 5;
const MARK_VALUES = 8;

export function encodeCursor(position: WalkPosition | undefined): number {
  if (position === undefined) return 0;
  const { suffix, depth, fingerprint } = position;
  const place = (depth * SUFFIX_VALUES + suffix) * FINGERPRINT_VALUES + fingerprint;
  return place * MARK_VALUES + MARK;
}

/** Undefined when the number is no cursor. */
export function decodeCursor(cursor: number): WalkPosition | undefined {
  if (cursor === 0) return { ...WALK_START };
  if (!Number.isSafeInteger(cursor) || cursor < 0 || cursor % MARK_VALUES !== MARK) {
    return undefined;
  }
  const place = Math.floor(cursor / MARK_VALUES);
  const fingerprint = place % FINGERPRINT_VALUES;
  const rest = Math.floor(place / FINGERPRINT_VALUES);
  const suffix = rest % SUFFIX_VALUES;
  const depth = Math.floor(rest / SUFFIX_VALUES);
  const valid = depth <= DEPTH_MAX && suffix < 2 ** depth;
  return valid ? { suffix, depth, fingerprint } : undefined;
}
