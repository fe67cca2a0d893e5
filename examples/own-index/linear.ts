/** Linear probing as an index of Stepwell, and how to verify it: see README.md. */
import type { Canary } from '../../lab/verification/canary.ts';
import { claimsOf, giveUpSoon, type Subject } from '../../lab/verification/subjects/subject.ts';
import { StepwellError } from '../../src/errors.ts';
import type * as contract from '../../src/indexes/contract.ts';
import { backOff } from '../../src/indexes/substrates/backoff.ts';
import * as claims from '../../src/indexes/substrates/claims/index.ts';
import { inRange } from '../../src/indexes/substrates/parameters.ts';
import { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import { checkParts } from '../../src/indexes/traversal/check-records.ts';
import { RangeOrder } from '../../src/indexes/traversal/part-orders.ts';
import type { Parts } from '../../src/indexes/traversal/parts.ts';
import { SLOT_UNITS_MAX } from '../../src/records/layout.ts';
import * as verbs from '../../src/verbs/index.ts';

type Operation<T> = verbs.Operation<T>;
type Address = verbs.Address;
type Request = claims.SlotRequest;
type Shape = { readonly slots: number; readonly probes: number; readonly seed: number };

const { BUCKETS_AT } = claims;
const MANIFEST: contract.IndexManifest = {
  name: 'linear',
  ordered: false,
  orderedWalk: false,
  onlineResize: false,
  resizes: [],
};
/** Slots that a traversal reads at once. */
const PART = 128;
const PENDING = 1 << 13;
/** Nothing ever moves, so the only flag of a slot is that of a claim. */
const FORMAT: claims.SlotFormat = {
  pointer: 0xff,
  pending: PENDING,
  moved: 0,
  frozen: 0,
  shared: 0,
  emptied: () => 0,
};

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

function isLive(high: number): boolean {
  return (high & PENDING) === 0;
}

/** One client's handle of a table: the contract, and what the claims substrate needs. */
class LinearIndex
  implements contract.Index, claims.ClaimedSlots<Request>, claims.SlotProtocol<Request>
{
  readonly manifest = MANIFEST;
  readonly counters = { slotChanged: 0, pendingKey: 0, withdrawn: 0 };
  readonly records: RecordIo;
  readonly root: Address;
  readonly parameters: Shape;
  patience = { polls: 40, microseconds: 50 };

  constructor(records: RecordIo, root: Address, shape: Shape) {
    this.records = records;
    this.root = root;
    this.parameters = shape;
  }

  newRequest(): Request {
    return new claims.SlotRequest(this.#endOfPlaces, FORMAT);
  }

  get #endOfPlaces(): number {
    return BUCKETS_AT + 8 * this.parameters.probes;
  }

  // For the claims substrate.

  addressOf({ hash }: Request, at: number): Address {
    return this.root + 8 * homeOf(hash, this.parameters) + at - BUCKETS_AT;
  }

  entryHigh({ record: { block, headUnits }, fingerprint }: Request): number {
    const units = Math.min(headUnits, SLOT_UNITS_MAX);
    return (fingerprint << 24) | (units << 16) | claims.pointerHigh(block);
  }

  vacantHigh(): number {
    return 0;
  }

  postPlaces(request: Request, batch: verbs.Batch): verbs.Batch {
    const home = this.addressOf(request, BUCKETS_AT);
    return batch.read(home, this.#endOfPlaces - BUCKETS_AT, request.words, BUCKETS_AT);
  }

  gatherRivals(request: Request): number {
    return this.#gather(request, (_, at) => at !== request.slotAt);
  }

  retry(request: Request, reason: claims.ClaimRetry, attempt: number): Operation<void> {
    return backOff(this.counters, request, reason, attempt);
  }

  // The parts of an operation on one key.

  /** Two round trips; the first one also writes the outgoing record, if there is one. */
  *locate(request: Request): Operation<boolean> {
    const { batch } = request;
    this.#begin(request, batch.clear());
    if (request.record.block !== 0) this.records.post(request, batch);
    yield batch;
    this.#gather(request, isLive);
    yield* claims.readCandidates(request);
    return claims.matchCandidate(request);
  }

  /** Claims the first vacant slot from the key's home on. */
  *insert(request: Request, attempt: number): Operation<boolean> {
    const { i32 } = request.words;
    for (let at = BUCKETS_AT; at < this.#endOfPlaces; at += 8) {
      const isVacant = claims.isVacantIn(FORMAT, i32[at >> 2], i32[(at >> 2) + 1]);
      if (isVacant) return yield* claims.claimSlot(this, request, at, attempt);
    }
    throw new StepwellError('SW_INDEX_FULL', 'all slots in which the key may be are taken');
  }

  replace(request: Request, attempt: number): Operation<boolean> {
    return claims.replaceSlot(this, request, attempt);
  }

  vacate(request: Request, attempt: number): Operation<boolean> {
    return claims.vacateSlot(this, request, attempt);
  }

  #begin(request: Request, batch: verbs.Batch): void {
    request.fingerprint = fingerprintOf(request.hash);
    this.postPlaces(request, batch);
  }

  /** Collects the slots that have the key's fingerprint and that `accepts` takes. */
  #gather(request: Request, accepts: (high: number, at: number) => boolean): number {
    let count = 0;
    for (let at = BUCKETS_AT; at < this.#endOfPlaces; at += 8) {
      const high = verbs.highHalf(request.words, at);
      if (high >>> 24 !== request.fingerprint || !accepts(high, at)) continue;
      request.candidateSlots[count++] = at;
    }
    request.candidates.mayBeLong = false;
    request.candidates.count = count;
    return count;
  }

  // The contract.

  search(request: Request): Operation<boolean> {
    return this.locate(request);
  }

  *searchMany(
    requests: readonly Request[],
    count: number,
    batch: verbs.Batch,
    found: boolean[],
  ): Operation<void> {
    const some = requests.slice(0, count);
    batch.clear();
    for (const request of some) this.#begin(request, batch);
    yield batch;
    batch.clear();
    for (const request of some) {
      if (this.#gather(request, isLive) > 0) claims.postCandidates(request, batch);
    }
    if (batch.length > 0) yield batch;
    for (const [i, request] of some.entries()) {
      const isSettled = !request.candidates.mayBeLong;
      found[i] = isSettled ? claims.matchCandidate(request) : yield* this.search(request);
    }
  }

  write(
    request: Request,
    condition: contract.Condition,
    expected = 0,
  ): Operation<contract.Outcome> {
    return claims.writeSlot(this, request, condition, expected);
  }

  remove(request: Request, expected?: number): Operation<boolean> {
    return claims.removeSlot(this, request, expected);
  }

  modify(request: Request, compute: (present: boolean) => void): Operation<contract.Outcome> {
    return claims.modifySlot(this, request, compute);
  }

  parts(cursor = 0): LinearParts {
    return new LinearParts(this, cursor);
  }

  check(sink: contract.CheckSink): Operation<number> {
    return checkParts(this, sink);
  }

  compact(grace: () => Operation<boolean>): Operation<number> {
    return claims.withdrawAbandoned((visit) => this.#eachClaim(visit), FORMAT, grace);
  }

  *#eachClaim(visit: Parameters<claims.EachClaim>[0]): Operation<void> {
    for (const parts = this.parts(); !parts.order.done; parts.order.pass()) {
      yield* parts.read();
      claims.visitClaims(FORMAT, parts.words, 0, parts.slotCount, parts.address, visit);
    }
  }
}

/** Reads some slots at a time. Records never move, so a cursor is just a slot's number. */
class LinearParts implements Parts<Request> {
  readonly order: RangeOrder;
  readonly words = new verbs.Scratch(8 * PART);
  readonly #root: Address;

  constructor({ root, parameters }: LinearIndex, cursor: number) {
    this.order = new RangeOrder(sizeOf(parameters), PART, cursor);
    this.#root = root;
  }

  get slotCount(): number {
    return this.order.next - this.order.position;
  }

  get address(): Address {
    return this.#root + 8 * this.order.position;
  }

  *read(): Operation<void> {
    const { order } = this;
    order.next = Math.min(order.position + PART, order.end);
    yield new verbs.Batch().read(this.address, 8 * this.slotCount, this.words, 0);
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    const { i32 } = this.words;
    for (let word = 0; word < 2 * this.slotCount; word += 2) {
      const [low, high] = [i32[word], i32[word + 1]];
      if (claims.isVacantIn(FORMAT, low, high)) continue;
      visit(claims.pointerIn(FORMAT, low, high), claims.lengthOf(high), !isLive(high));
    }
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
  // A new span contains zeros, so all slots are vacant.
  create({ allocator }, parameters, catalog) {
    const bytes = 8 * sizeOf(parameters as Shape);
    return allocator.spans.allocate(catalog, Math.ceil(bytes / verbs.UNIT_BYTES));
  },
  // biome-ignore lint/correctness/useYield: there is nothing to read
  *open(pool, parameters, catalog, root) {
    const records = new RecordIo(pool, catalog, parameters.seed);
    return new LinearIndex(records, root, parameters as Shape);
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
  pending: claimsOf,
};

/** An insertion that ignores other insertions of its key. */
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
