import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { checkEach } from '../traversal/check-records.ts';
import { MergePlanner } from './merging/merge-plan.ts';
import { RecordKeys } from './merging/record-keys.ts';
import { search } from './operations/search.ts';
import type { SepHashRequest } from './request.ts';
import {
  depthBitsFor,
  depthBitsOf,
  ENTRY_UNITS_MAX,
  fingerprintOf,
  isTombstone,
  recordOf,
  signOf,
  tagFor,
  tagOf,
  unitsOfEntry,
} from './segments/entry.ts';
import { HEADER_UNITS, isClosed } from './segments/header.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import { eachSegment, type Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/**
 * Verifies every invariant of an index. The directory leads to every segment. MainSegments are
 * sorted as their FPTables say and have no key twice. Every record is intact, findable, in the
 * segment of its key, and under its fingerprints, depth bits and length.
 */
export function checkTable(table: SepHashTable, sink: CheckSink): Operation<number> {
  return new Check(table, sink).run();
}

interface Place {
  suffix: number;
  depth: number;
}

interface Entry {
  low: number;
  high: number;
  /** Whether it stands in the MainSegment, which has no key twice. */
  isMain: boolean;
}

class Check {
  readonly #table: SepHashTable;
  readonly #sink: CheckSink;
  readonly #planner: MergePlanner;
  #checked = 0;

  constructor(table: SepHashTable, sink: CheckSink) {
    this.#table = table;
    this.#sink = sink;
    this.#planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
  }

  *run(): Operation<number> {
    yield* this.#table.directory.load();
    yield* eachSegment(this.#table, (snapshot) => this.#segment(snapshot));
    return this.#checked;
  }

  *#segment(snapshot: Snapshot): Operation<void> {
    const { header, main, current } = snapshot;
    const { geometry, directory } = this.#table;
    const where = `segment ${main.suffix} of depth ${main.depth}`;
    if (main.depth > directory.depth) this.#sink.problem(`${where}: deeper than the directory`);
    if (directory.lookup(main.suffix) !== header) {
      this.#sink.problem(`${where}: the directory does not lead here`);
    }
    if (!isClosed(snapshot.metaHigh) && !geometry.hasRoom(main.units, main.count)) {
      this.#sink.problem(`${where}: its block has no room for the next merge`);
    }
    this.#sink.reachable(header, HEADER_UNITS);
    this.#sink.reachable(main.slots, geometry.slotsUnits);
    this.#sink.reachable(snapshot.mainBlock, main.units);
    const all = yield* snapshot.entries();
    const entries = all.subarray(0, 2 * main.count);
    this.#order(where, entries, snapshot.ends);
    yield* this.#records(where, entries, current, all.subarray(2 * main.count), main);
    this.#checked += (yield* this.#planner.plan(entries, current)).kept.length / 2;
    this.#sink.progress(this.#checked);
  }

  /** Entries of a MainSegment are sorted, and the FPTable tells where each fingerprint ends. */
  #order(where: string, entries: Int32Array, ends: Uint16Array): void {
    const counted = new Uint16Array(FINGERPRINTS);
    for (let at = 0; at < entries.length; at += 2) {
      const high = entries[at + 1];
      counted[fingerprintOf(high)]++;
      const sorted = at === 0 || tagOf(entries[at - 1]) <= tagOf(high);
      if (!sorted) this.#sink.problem(`${where}: entry ${at / 2} is not in order`);
      if (isTombstone(high) || signOf(high) === 1) {
        this.#sink.problem(`${where}: entry ${at / 2} is no entry of a MainSegment`);
      }
    }
    for (let fp = 0, end = 0; fp < FINGERPRINTS; fp++) {
      end += counted[fp] + (this.#table.geometry.hasMark(fp) ? 1 : 0);
      if (ends[fp] === end) continue;
      this.#sink.problem(`${where}: wrong FPTable at ${fp}`);
      return;
    }
  }

  *#records(
    where: string,
    entries: Int32Array,
    current: Int32Array,
    dropped: Int32Array,
    place: Place,
  ): Operation<void> {
    const reached = new Set<number>();
    const texts = new Set<string>();
    yield* this.#each(
      [...entriesIn(entries, true), ...entriesIn(current, false)],
      (entry, request) => this.#record(where, entry, request, place, reached, texts),
    );
    yield* this.#each(entriesIn(dropped, false), (entry, request) =>
      this.#dropped(where, entry, request, reached),
    );
  }

  #each(
    entries: readonly Entry[],
    check: (entry: Entry, request: SepHashRequest) => Operation<void>,
  ): Operation<void> {
    return checkEach(this.#sink, entries, () => this.#table.newRequest(), check);
  }

  /** Checks what an entry says of its record, and that a search finds the record's key. */
  *#record(
    where: string,
    { low, high, isMain }: Entry,
    request: SepHashRequest,
    { suffix, depth }: Place,
    reached: Set<number>,
    texts: Set<string>,
  ): Operation<void> {
    const record = recordOf(low, high);
    const problem = (text: string) => this.#sink.problem(`${where}: record at ${record}: ${text}`);
    yield* this.#blocks(record, unitsOfEntry(high), request, reached);
    try {
      yield* this.#table.records.complete(request);
    } catch (error) {
      return problem((error as Error).message);
    }
    const { hash } = request;
    if ((hash.h1 & (2 ** depth - 1)) !== suffix) problem('not of this segment');
    if (tagFor(hash.h2) !== tagOf(high)) problem('wrong fingerprints');
    if (depthBitsFor(hash.h1, depth) !== depthBitsOf(high)) problem('wrong depth bits');
    const text = keyText(request);
    if (isMain && texts.has(text)) this.#sink.problem(`${where}: a key stands twice in Main`);
    if (isMain) texts.add(text);
    if (isTombstone(high)) return;
    const found = yield* search(this.#table, request);
    if (found || request.match >= 0) return;
    problem(`its key of ${text.length} bytes is not found`);
  }

  *#dropped(
    where: string,
    { low, high }: Entry,
    request: SepHashRequest,
    reached: Set<number>,
  ): Operation<void> {
    const record = recordOf(low, high);
    if (reached.has(record)) this.#sink.problem(`${where}: a dropped record is in use`);
    yield* this.#blocks(record, unitsOfEntry(high), request, reached);
  }

  /** Reads a record and reports its blocks, once. */
  *#blocks(
    record: number,
    units: number,
    request: SepHashRequest,
    reached: Set<number>,
  ): Operation<void> {
    const { records } = this.#table;
    yield* records.adopt(request, record, Math.min(units, ENTRY_UNITS_MAX));
    if (reached.has(record)) return;
    reached.add(record);
    for (const block of yield* records.foundBlocks(request, record)) {
      this.#sink.reachable(block.address, block.units);
    }
  }
}

function entriesIn(words: Int32Array, isMain: boolean): Entry[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return { low: words[2 * i], high: words[2 * i + 1], isMain };
  });
}

function keyText({ outgoing, keyBytes }: SepHashRequest): string {
  return outgoing.buffer.toString('latin1', 16, 16 + keyBytes);
}
