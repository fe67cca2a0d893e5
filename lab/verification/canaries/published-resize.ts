import {
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../../src/indexes/contract.ts';
import {
  certainty,
  chooseSlot,
  gatherLive,
  isWritable,
  postBuckets,
  repostBuckets,
  STALE,
} from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { insert } from '../../../src/indexes/race/insert.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import type { RaceTable } from '../../../src/indexes/race/table.ts';
import { replaceSlot, vacateSlot } from '../../../src/indexes/substrates/claims/change-slot.ts';
import {
  matchCandidate,
  postCandidates,
} from '../../../src/indexes/substrates/claims/slot-candidates.ts';
import { control } from '../../../src/pool/control.ts';
import { type Operation, readInteger, Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';
import { FILLING, publishedSplit } from './published-split.ts';

/**
 * RACE's resize as printed (section 3.4.2): the mover inserts items into a new subtable that others
 * fill meanwhile. An item for which it finds no slot is left behind, where no search reads.
 */
export const publishedResizeCanary: Canary = {
  name: 'published resize: an item for which the mover finds no slot is left behind',
  caughtBy: 'linearizability',
  scenario: { crashes: false },
  kind: RACE,
  index: ({ table }: RaceIndex) => new PublishedResize(table),
};

/** Where a key was found: where it belongs, in the subtable that is being split, or nowhere. */
const HERE = 0;
const OLD = 1;
const ABSENT = 2;

export class PublishedResize extends RaceIndex {
  /** Items that movers took to their new subtable, and those for which they found no slot. */
  readonly tally = { moved: 0, left: 0 };

  override *search(request: RaceRequest): Operation<boolean> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    return (yield* find(this.table, request)) !== ABSENT;
  }

  override *write(request: RaceRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    const mustExist = condition === IF_PRESENT || condition === IF_VERSION;
    try {
      for (let attempt = 1; ; ) {
        if (request.record.block === 0) yield* table.records.allocate(request);
        const place = yield* find(table, request);
        if (place === ABSENT && mustExist) {
          request.found.at = -1;
          return REFUSED;
        }
        const refused = condition === IF_VERSION && request.found.version !== expected;
        if (place !== ABSENT && (refused || condition === IF_ABSENT)) return REFUSED;
        if (yield* this.#waitsForSplit(request, place)) continue;
        if (!(yield* this.#put(request, place, attempt++))) continue;
        request.record.forgetBlock();
        return place === ABSENT ? INSERTED : REPLACED;
      }
    } finally {
      table.records.discard(request);
    }
  }

  override *remove(request: RaceRequest): Operation<boolean> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    for (let attempt = 1; ; attempt++) {
      const place = yield* find(this.table, request);
      if (place === ABSENT) return false;
      if (place === OLD) yield* control.pause(1);
      else if (yield* vacateSlot(this.slots, request, attempt)) return true;
    }
  }

  override *modify(request: RaceRequest, compute: (present: boolean) => void): Operation<Outcome> {
    const { table } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    try {
      for (let attempt = 1; ; ) {
        const place = yield* find(table, request);
        if (place !== ABSENT) yield* table.records.complete(request);
        table.records.discard(request);
        compute(place !== ABSENT);
        yield* table.records.allocate(request);
        if (yield* this.#waitsForSplit(request, place)) continue;
        if (!(yield* this.#put(request, place, attempt++))) continue;
        request.record.forgetBlock();
        return place === ABSENT ? INSERTED : REPLACED;
      }
    } finally {
      table.records.discard(request);
    }
  }

  *#put(request: RaceRequest, place: number, attempt: number): Operation<boolean> {
    if (place === HERE) return yield* replaceSlot(this.slots, request, attempt);
    return yield* insert(this.slots, request, attempt);
  }

  /** A split takes as long as its subtable is large: to wait for it is no attempt that failed. */
  *#waitsForSplit(request: RaceRequest, place: number): Operation<boolean> {
    const { table } = this;
    if (place === HERE || (place === ABSENT && chooseSlot(table, request) !== 0)) return false;
    if (place === ABSENT) yield* publishedSplit(table, request, this.tally);
    yield* control.pause(1);
    return true;
  }
}

/**
 * A search of the new buckets, then, while the subtable is being filled, of the old ones and of the
 * new ones again.
 */
function* find(table: RaceTable, request: RaceRequest): Operation<number> {
  const filling = new Scratch(16);
  const { batch } = request;
  for (;;) {
    batch.clear().read(table.directory.lookup(request.hash.h1) + FILLING, 8, filling, 0);
    yield postBuckets(table, request, batch);
    if (yield* matches(request, table)) {
      if (isWritable(table, request, request.slotAt)) return HERE;
    } else if (certainty(table, request) !== STALE) {
      request.otherCount = 0;
      if (readInteger(filling, 0) === 0) return ABSENT;
      const place = yield* findWhileFilling(table, request);
      if (place !== undefined) return place;
    }
    yield* table.directory.refresh(request.hash.h1);
  }
}

/** Undefined when the key is to be looked for once more. */
function* findWhileFilling(table: RaceTable, request: RaceRequest): Operation<number | undefined> {
  const { combined1, combined2, subtable } = request;
  const parent = Number(yield* control.load(subtable));
  request.combined1 = combined1 - subtable + parent;
  request.combined2 = combined2 - subtable + parent;
  yield repostBuckets(table, request, request.batch.clear());
  const isOld = yield* matches(request, table);
  request.combined1 = combined1;
  request.combined2 = combined2;
  if (isOld) return OLD;
  yield repostBuckets(table, request, request.batch.clear());
  if (yield* matches(request, table)) return undefined;
  return certainty(table, request) === STALE ? undefined : ABSENT;
}

function* matches(request: RaceRequest, table: RaceTable): Operation<boolean> {
  if (gatherLive(table, request) === 0) return false;
  yield postCandidates(request, request.batch.clear());
  return matchCandidate(request);
}
