/** Linear probing as an index of Stepwell, with what verifies it: see README.md. */
import type { Canary } from '../../lab/verification/canary.ts';
import { giveUpSoon, type Subject } from '../../lab/verification/subjects/subject.ts';
import { invariant, StepwellError } from '../../src/errors.ts';
import type * as contract from '../../src/indexes/contract.ts';
import { type IndexPicture, pictureOf } from '../../src/indexes/picture.ts';
import { backOff } from '../../src/indexes/substrates/backoff.ts';
import { withdrawAbandoned } from '../../src/indexes/substrates/claims/abandoned-claims.ts';
import { replaceSlot, vacateSlot } from '../../src/indexes/substrates/claims/change-slot.ts';
import { claimSlot } from '../../src/indexes/substrates/claims/claim-slot.ts';
import type {
  ClaimedSlots,
  ClaimRetry,
} from '../../src/indexes/substrates/claims/claimed-slots.ts';
import * as candidates from '../../src/indexes/substrates/claims/slot-candidates.ts';
import * as slots from '../../src/indexes/substrates/claims/slot-format.ts';
import * as operations from '../../src/indexes/substrates/claims/slot-operations.ts';
import { BUCKETS_AT, SlotRequest } from '../../src/indexes/substrates/claims/slot-request.ts';
import { inRange } from '../../src/indexes/substrates/parameters.ts';
import { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import { checkEach, checkRecord } from '../../src/indexes/traversal/check-records.ts';
import type { PartOrder, Parts } from '../../src/indexes/traversal/parts.ts';
import { partOf, visitSample } from '../../src/indexes/traversal/sample.ts';
import { SLOT_UNITS_MAX } from '../../src/records/layout.ts';
import * as verbs from '../../src/verbs/index.ts';

type Operation<T> = verbs.Operation<T>;
type Address = verbs.Address;
type Visit = (request: SlotRequest, keyBytes: number) => void;

const MANIFEST: contract.IndexManifest = {
  name: 'linear',
  ordered: false,
  orderedWalk: false,
  lockFreeReads: true,
  onlineResize: false,
  resizes: [],
};
/** Slots that a count or a check reads at once. */
const STRIDE = 512;
/** Slots that a walk reads at once; cursors are multiples of it. */
const WALKED = 64;
const PENDING = 1 << 13;
/** Nothing ever moves, so the only flag of a slot is that of a claim. */
const FORMAT: slots.SlotFormat = {
  pointer: 0xff,
  pending: PENDING,
  moved: 0,
  frozen: 0,
  shared: 0,
  emptied: () => 0,
};

type Shape = { readonly slots: number; readonly probes: number; readonly seed: number };

/** The first slot in which a key may be; it may also be in the `probes - 1` slots behind it. */
function homeOf({ h2 }: { h2: number }, { slots }: Shape): number {
  return Math.floor(((h2 >>> 0) / 2 ** 32) * slots);
}

/** Never 0, so that no vacant slot matches. */
function fingerprintOf({ h1 }: { h1: number }): number {
  return h1 >>> 24 || 1;
}

/** `slots` homes, and room for the probes of the last one. */
function sizeOf({ slots, probes }: Shape): number {
  return slots + probes - 1;
}

function unitsOf(shape: Shape): number {
  return Math.ceil((8 * sizeOf(shape)) / 64);
}

/** A slot that is not vacant, and its place in the table. */
interface Entry {
  place: number;
  record: Address;
  high: number;
}

function isLive(high: number): boolean {
  return (high & PENDING) === 0;
}

/** One client's handle of a table: what the contract asks for, and what the claims ask of it. */
class LinearIndex
  implements contract.Index, ClaimedSlots<SlotRequest>, operations.SlotProtocol<SlotRequest>
{
  readonly manifest = MANIFEST;
  readonly parameters: contract.IndexParameters & Shape;
  readonly records: RecordIo;
  readonly counters: Record<ClaimRetry, number> = { slotChanged: 0, pendingKey: 0, withdrawn: 0 };
  readonly root: Address;
  patience = { polls: 40, microseconds: 50 };

  constructor(records: RecordIo, root: Address, shape: Shape) {
    this.records = records;
    this.root = root;
    this.parameters = { ...shape };
    records.tableUnits = () => [unitsOf(shape)];
  }

  get size(): number {
    return sizeOf(this.parameters);
  }

  newRequest(): SlotRequest {
    return new SlotRequest(BUCKETS_AT + 8 * this.parameters.probes, FORMAT);
  }

  // What claims ask for.

  addressOf({ hash }: SlotRequest, at: number): Address {
    return this.root + 8 * homeOf(hash, this.parameters) + at - BUCKETS_AT;
  }

  entryHigh({ block, fingerprint, headUnits }: SlotRequest): number {
    const units = Math.min(headUnits, SLOT_UNITS_MAX);
    return (fingerprint << 24) | (units << 16) | slots.pointerHigh(block);
  }

  vacantHigh(): number {
    return 0;
  }

  postPlaces(request: SlotRequest, batch: verbs.Batch): verbs.Batch {
    const home = this.addressOf(request, BUCKETS_AT);
    return batch.read(home, 8 * this.parameters.probes, request.words, BUCKETS_AT);
  }

  // biome-ignore lint/correctness/useYield: a key's slots are always the same
  *isCertain(): Operation<boolean> {
    return true;
  }

  catchUp(request: SlotRequest, attempt: number): Operation<void> {
    return this.retry(request, 'slotChanged', attempt);
  }

  gatherRivals(request: SlotRequest): number {
    return this.#gather(request, (_, at) => at !== request.slotAt);
  }

  retry(request: SlotRequest, reason: ClaimRetry, attempt: number): Operation<void> {
    return backOff(this.counters, request, reason, attempt);
  }

  // What operations on one key are made of.

  /** Two round trips; the first one also writes the outgoing record, if there is one. */
  *locate(request: SlotRequest): Operation<boolean> {
    this.#postOwnPlaces(request, request.batch.clear());
    if (request.block !== 0) this.records.post(request, request.batch);
    yield request.batch;
    this.#gather(request, isLive);
    yield* candidates.readCandidates(request);
    return candidates.matchCandidate(request);
  }

  /** Claims the first vacant slot from the key's home on. */
  *insert(request: SlotRequest, attempt: number): Operation<boolean> {
    const { words } = request;
    for (let at = BUCKETS_AT; at < this.#endOfPlaces; at += 8) {
      const isVacant = slots.isVacantIn(
        FORMAT,
        verbs.lowHalf(words, at),
        verbs.highHalf(words, at),
      );
      if (isVacant) return yield* claimSlot(this, request, at, attempt);
    }
    throw new StepwellError('SW_INDEX_FULL', 'all slots in which the key may be are taken');
  }

  replace(request: SlotRequest, attempt: number): Operation<boolean> {
    return replaceSlot(this, request, attempt);
  }

  vacate(request: SlotRequest, attempt: number): Operation<boolean> {
    return vacateSlot(this, request, attempt);
  }

  #postOwnPlaces(request: SlotRequest, batch: verbs.Batch): void {
    request.fingerprint = fingerprintOf(request.hash);
    this.postPlaces(request, batch);
  }

  get #endOfPlaces(): number {
    return BUCKETS_AT + 8 * this.parameters.probes;
  }

  /** Collects the slots that have the key's fingerprint and that `accepts` takes. */
  #gather(request: SlotRequest, accepts: (high: number, at: number) => boolean): number {
    let count = 0;
    for (let at = BUCKETS_AT; at < this.#endOfPlaces; at += 8) {
      const high = verbs.highHalf(request.words, at);
      if (high >>> 24 !== request.fingerprint || !accepts(high, at)) continue;
      request.candidates[count++] = at;
    }
    request.longCandidates = false;
    request.candidateCount = count;
    return count;
  }

  /** Reads some slots; returns those that are not vacant. */
  *entries(first: number, count: number): Operation<Entry[]> {
    const words = new verbs.Scratch(8 * count);
    yield new verbs.Batch().read(this.root + 8 * first, 8 * count, words, 0);
    const found: Entry[] = [];
    for (let i = 0; i < count; i++) {
      const [low, high] = [verbs.lowHalf(words, 8 * i), verbs.highHalf(words, 8 * i)];
      if (slots.isVacantIn(FORMAT, low, high)) continue;
      found.push({ place: first + i, record: slots.pointerIn(FORMAT, low, high), high });
    }
    return found;
  }

  *allEntries(): Operation<Entry[]> {
    const found: Entry[] = [];
    for (let first = 0; first < this.size; first += STRIDE) {
      found.push(...(yield* this.entries(first, Math.min(STRIDE, this.size - first))));
    }
    return found;
  }

  // The contract.

  search(request: SlotRequest): Operation<boolean> {
    return this.locate(request);
  }

  *searchMany(
    requests: readonly SlotRequest[],
    count: number,
    batch: verbs.Batch,
    found: boolean[],
  ): Operation<void> {
    const some = requests.slice(0, count);
    batch.clear();
    for (const request of some) this.#postOwnPlaces(request, batch);
    yield batch;
    batch.clear();
    for (const request of some) {
      if (this.#gather(request, isLive) > 0) candidates.postCandidates(request, batch);
    }
    if (batch.length > 0) yield batch;
    for (let i = 0; i < count; i++) {
      const isSettled = !requests[i].longCandidates;
      found[i] = isSettled
        ? candidates.matchCandidate(requests[i])
        : yield* this.search(requests[i]);
    }
  }

  write(
    request: SlotRequest,
    condition: contract.Condition,
    expected = 0,
  ): Operation<contract.Outcome> {
    return operations.writeSlot(this, request, condition, expected);
  }

  remove(request: SlotRequest, expected?: number): Operation<boolean> {
    return operations.removeSlot(this, request, expected);
  }

  modify(request: SlotRequest, compute: (present: boolean) => void): Operation<contract.Outcome> {
    return operations.modifySlot(this, request, compute);
  }

  *shape(): Operation<contract.IndexShape> {
    const records = (yield* this.allEntries()).filter(({ high }) => isLive(high)).length;
    return { globalDepth: 0, subtables: 1, slots: this.size, records };
  }

  *picture(): Operation<IndexPicture> {
    const cells = new Array<number>(Math.ceil(this.size / STRIDE)).fill(0);
    const live = (yield* this.allEntries()).filter(({ high }) => isLive(high));
    for (const { place } of live) cells[Math.floor(place / STRIDE)] += 1 / STRIDE;
    const table = { name: 'table', used: live.length, slots: this.size, cells };
    const layer = { parts: 'tables', cell: `${STRIDE} slots`, total: 1 };
    return pictureOf([{ ...layer, isExact: true, shown: [table] }]);
  }

  parts(cursor = 0): LinearParts {
    return new LinearParts(this, cursor);
  }

  *sample(
    request: SlotRequest,
    places: readonly number[],
    enough: number,
    visit: Visit,
  ): Operation<void> {
    request.candidateCount = 0;
    for (const place of places) {
      const { part } = partOf(place, this.parameters.slots);
      for (const entry of yield* this.entries(part, this.parameters.probes)) note(request, entry);
    }
    yield* visitSample(this.records, request, { place: places[0], enough }, visit);
  }

  *check(sink: contract.CheckSink): Operation<number> {
    sink.reachable(this.root, unitsOf(this.parameters));
    const live = (yield* this.allEntries()).filter(({ high }) => isLive(high));
    const keys = new Set<string>();
    yield* checkEach(
      sink,
      live,
      () => this.newRequest(),
      (entry, request) => this.#checkEntry(sink, keys, entry, request),
    );
    return live.length;
  }

  *#checkEntry(
    sink: contract.CheckSink,
    keys: Set<string>,
    { place, record, high }: Entry,
    request: SlotRequest,
  ): Operation<void> {
    const found = { record, units: slots.lengthOf(high) };
    if (!(yield* checkRecord(this.records, request, found, sink))) return;
    const { hash } = request;
    const probe = place - homeOf(hash, this.parameters);
    const isHere = probe >= 0 && probe < this.parameters.probes;
    if (!isHere || fingerprintOf(hash) !== high >>> 24) sink.problem(`slot ${place}: wrong key`);
    const key = `${hash.h1} ${hash.h2} ${hash.h3} ${hash.h4}`;
    if (keys.has(key)) sink.problem(`slot ${place}: its key has another slot`);
    keys.add(key);
  }

  compact(grace: () => Operation<boolean>): Operation<number> {
    return withdrawAbandoned((visit) => this.#eachClaim(visit), FORMAT, grace);
  }

  *#eachClaim(visit: (slot: Address, low: number, high: number) => void): Operation<void> {
    for (const { place, record, high } of yield* this.allEntries()) {
      if (!isLive(high)) visit(this.root + 8 * place, slots.pointerLow(record), high);
    }
  }
}

function note(request: SlotRequest, { record, high }: Entry): void {
  if (isLive(high)) request.noteRecord(record, slots.lengthOf(high));
}

/** Some slots at a time. Records stay in theirs, so a place is all that a cursor has to tell. */
class LinearParts implements Parts<SlotRequest>, PartOrder {
  readonly order: PartOrder = this;
  readonly unitsMax = SLOT_UNITS_MAX;
  readonly #index: LinearIndex;
  #entries: Entry[] = [];
  #place: number;

  constructor(index: LinearIndex, cursor = 0) {
    this.#index = index;
    this.#place = cursor;
    if (cursor >= 0 && cursor < index.size && cursor % WALKED === 0) return;
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
  }

  get done(): boolean {
    return this.#place >= this.#index.size;
  }

  get cursor(): number {
    return this.done ? 0 : this.#place;
  }

  pass(): void {
    this.#place += WALKED;
  }

  *read(): Operation<void> {
    const count = Math.min(WALKED, this.#index.size - this.#place);
    this.#entries = yield* this.#index.entries(this.#place, count);
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const { record, high } of this.#entries) {
      visit(record, slots.lengthOf(high), !isLive(high));
    }
  }

  isHere(): boolean {
    return true;
  }

  // biome-ignore lint/correctness/useYield: the table never moves
  *eachOtherBlock(visit: (address: Address) => void): Operation<void> {
    visit(this.#index.root);
  }
}

export const KIND: contract.IndexKind = {
  manifest: MANIFEST,
  parameterNames: ['slots', 'probes', 'seed'],
  flags: [],
  parameters({ slots, probes }, poolBytes, seed) {
    const usual = Math.min(2 ** 20, Math.max(64, Math.floor(poolBytes / 64)));
    return {
      slots: inRange('slots', slots ?? usual, 1, 2 ** 24),
      probes: inRange('probes', probes ?? 32, 1, 256),
      seed,
    };
  },
  *create({ allocator }, parameters, catalog) {
    const root = yield* allocator.allocate(catalog, unitsOf(parameters as Shape));
    const bytes = 64 * unitsOf(parameters as Shape);
    const zeros = new verbs.Scratch(Math.min(bytes, 2 ** 16));
    for (let at = 0; at < bytes; at += 2 ** 16) {
      yield new verbs.Batch().write(root + at, Math.min(bytes - at, 2 ** 16), zeros, 0);
    }
    return root;
  },
  // biome-ignore lint/correctness/useYield: there is nothing to read
  *open(pool, parameters, catalog, root) {
    invariant(root > 0, 'a store without a root');
    const shape = parameters as Shape;
    return new LinearIndex(new RecordIo(pool, catalog, shape.seed), root, shape);
  },
};

/** Tables so small that keys share their slots. */
export const SUBJECT: Subject = {
  kind: KIND,
  parameters: (prng, crowded) => {
    const slots = 1 + prng.below(crowded ? 2 : 16);
    return { slots, probes: 2 + prng.below(4), seed: prng.next32() };
  },
  torture: () => ({ slots: 2048 }),
  smallest: { slots: 1, probes: 4, seed: 7 },
  place: (hash, parameters) => String(homeOf(hash, parameters as Shape)),
  fingerprint: fingerprintOf,
  placesOfKey: ({ probes }) => probes,
  walksOnce: true,
  hurry(index) {
    (index as LinearIndex).patience = { polls: 1, microseconds: 1 };
  },
  hasten: (index, attempts) => giveUpSoon(index as LinearIndex, attempts),
  *pending(index) {
    const entries = yield* (index as LinearIndex).allEntries();
    return entries.filter(({ high }) => !isLive(high)).map(({ record }) => record);
  },
};

/** An insertion that does not look for another one of its key. */
class Blind extends LinearIndex {
  override gatherRivals(): number {
    return 0;
  }
}

export const CANARIES: readonly Canary[] = [
  {
    name: 'linear: two insertions of a key do not look for each other',
    kind: KIND,
    caughtBy: 'structure',
    index: ({ records, root, parameters }: LinearIndex) => new Blind(records, root, parameters),
  },
];
