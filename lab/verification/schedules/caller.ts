import { StepwellError } from '../../../src/errors.ts';
import {
  type Clearing,
  evictsInTable,
  INSERTED,
  type Index,
  type Outcome,
  REFUSED,
  REPLACED,
  STORED,
  type TableIndex,
} from '../../../src/indexes/contract.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { sampleOf } from '../../../src/indexes/traversal/sample.ts';
import { KEY_UNITS } from '../../../src/indexes/traversal/visit-records.ts';
import { bytesBound } from '../../../src/records/codec.ts';
import { FLAG_SLIDING, HEADER_BYTES } from '../../../src/records/layout.ts';
import { type Expiry, NEVER } from '../../../src/records/times.ts';
import { type NearReads, UNPROVEN } from '../../../src/store/near/near-reads.ts';
import { type Operation, UNIT_BYTES } from '../../../src/verbs/index.ts';
import {
  type Call,
  CallRecord,
  encodeState,
  foundState,
  type KeyState,
  LAST_SEEN,
  type Result,
  type Write,
} from '../checks/history.ts';
import type { RunClock } from '../checks/run-clock.ts';
import type { Sight } from '../checks/snapshots.ts';

/** Errors which promise that the operation changed nothing. */
export const HARMLESS: ReadonlySet<string> = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL']);
/** A client that gives up early gets this error, which promises the same. */
const CONTENTION = 'SW_CONTENTION';
/** A hasty client gets this error if others do not act in time; they may still act later. */
const TIMEOUT = 'SW_TIMEOUT';

/** Records of a sample. */
const SAMPLE = 4;
/** No record has this codec. */
const NO_CODEC = 255;
/** Why a removal of all of a table's records spared one. */
const NOT_CHOSEN = 'not chosen';

/** Whether the error means that a hasty client has given up. */
export function isHaste(error: unknown): boolean {
  if (!(error instanceof StepwellError)) return false;
  return error.code === TIMEOUT || error.code === CONTENTION;
}

/** What a caller uses: the time, the keys, and the history that it adds to. */
export interface CallLog {
  now(): number;
  /** The clock by which records expire. */
  clock: RunClock;
  keys: readonly string[];
  /** Whether calls may be given up. */
  hasty?: boolean;
  /**
   * Whether operations have to say what they displace: not where merged ones share a request's, or
   * where records expire, which count for absent and are displaced.
   */
  counts?: boolean;
  /** Takes what a step of a scan has handed out, of an index of which that is of one moment. */
  snapshot?: (seen: readonly Sight[]) => void;
  record(record: CallRecord): void;
}

/** Whether a visit that needs only the keys also gets the value. */
function isReadWhole({ found }: Request): boolean {
  const end = found.contentAt + found.contentBytes;
  return found.isInline || end <= found.at + KEY_UNITS * UNIT_BYTES;
}

/** Turns calls into operations of an index, and logs when each was made and its result. */
export class Caller {
  readonly #name: string;
  readonly #index: Index;
  readonly #log: CallLog;
  readonly #request: Request;
  readonly #seen = new Map<number, number>();
  /** The call that is in flight. */
  current: CallRecord | undefined;
  /** Whether the last call found the pool full. */
  refused = false;
  /** Searches use it, if present. */
  readonly #near: NearReads | undefined;

  constructor(name: string, index: Index, log: CallLog, near?: NearReads) {
    this.#near = near;
    this.#name = name;
    this.#index = index;
    this.#log = log;
    this.#request = index.newRequest();
  }

  *perform(planned: Call): Operation<void> {
    if (planned.kind === 'remove' && planned.together && evictsInTable(this.#index)) {
      return yield* this.#removeBeside(this.#index, planned.key);
    }
    const clearing = this.#index.clearing?.(NO_CODEC);
    if (planned.kind === 'remove' && planned.together && clearing) {
      return yield* this.#clear(clearing, planned.key);
    }
    const call = this.#concrete(yield* this.#victim(planned));
    const { now, clock } = this.#log;
    const record = new CallRecord(this.#name, call, now(), clock);
    this.current = record;
    this.#log.record(record);
    try {
      record.result = yield* this.#run(call);
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      const { code } = error;
      const isHasty = this.#log.hasty === true && isHaste(error);
      if (!isHasty && !HARMLESS.has(code)) throw error;
      if (isHasty && code === TIMEOUT) return this.#giveUp(record);
      record.refusedBy = code;
    }
    this.refused = record.refusedBy === 'SW_POOL_FULL';
    record.responded = this.#log.now();
    this.current = undefined;
    if (record.result) this.#remember(record.result, call.key);
  }

  /**
   * Evicts what stands in the table of a key: a call on each key, of which those that were chosen
   * have taken effect.
   */
  *#removeBeside(index: TableIndex, own: number): Operation<void> {
    const { keys, now, clock } = this.#log;
    const records = keys.map(
      (_, key) => new CallRecord(this.#name, { key, kind: 'remove' }, now(), clock),
    );
    this.current = records[own];
    for (const record of records) this.#log.record(record);
    const chosen = new Map<number, Result>();
    const chooses = (met: Request, keyBytes: number) => {
      const key = this.#keyMet(met, keyBytes);
      if (key < 0 || chosen.has(key) || !isReadWhole(met)) return false;
      const outcome = index.records.isExpired(met) ? REFUSED : REPLACED;
      const found = outcome === REPLACED ? foundState(met) : undefined;
      chosen.set(key, { outcome, found, version: 0 });
      return true;
    };
    this.#request.setKey(keys[own], index.records.seed);
    let refusedBy = NOT_CHOSEN;
    try {
      yield* index.removeBeside(this.#request, index.newRequest(), chooses);
    } catch (error) {
      if (!(error instanceof StepwellError && this.#log.hasty && isHaste(error))) throw error;
      // Thrown before any record is chosen.
      refusedBy = error.code;
    }
    records.forEach((record, key) => {
      record.result = chosen.get(key);
      if (record.result === undefined) record.refusedBy = refusedBy;
      record.responded = now();
    });
    this.refused = false;
    this.current = undefined;
  }

  /** Clears one bucket more than `number`: a call on each key that may remove it. */
  *#clear(clearing: Clearing, number: number): Operation<void> {
    const { keys, now, clock, hasty } = this.#log;
    const records = keys.map((_, key) => {
      const record = new CallRecord(this.#name, { key, kind: 'remove' }, now(), clock);
      record.clears = true;
      return record;
    });
    this.current = records[0];
    for (const record of records) this.#log.record(record);
    let code: string | undefined;
    try {
      for (let i = 0; i <= number && !clearing.done; i++) yield* clearing.next();
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      ({ code } = error);
      if (!HARMLESS.has(code) && !(hasty && isHaste(error))) throw error;
    }
    this.refused = code === 'SW_POOL_FULL';
    this.current = undefined;
    if (code === TIMEOUT) for (const record of records) record.givenUp = true;
    else for (const record of records) record.responded = now();
  }

  #giveUp(record: CallRecord): void {
    record.givenUp = true;
    this.refused = false;
    this.current = undefined;
  }

  /** A sampled removal becomes one of a record that the index's sample meets, in that version. */
  *#victim(call: Call): Operation<Call> {
    const index = this.#index;
    if (call.kind !== 'remove' || call.sampled === undefined) return call;
    const met: Call[] = [];
    const visit = (request: Request, keyBytes: number) => {
      const { foundTicks, found } = request;
      const { version: expected } = found;
      const key = this.#keyMet(request, keyBytes);
      const usedAfter = request.accessAt < 0 ? undefined : foundTicks;
      if (key >= 0) met.push({ key, kind: 'remove', expected, usedAfter });
    };
    try {
      yield* sampleOf(index, this.#request, [call.sampled], SAMPLE, visit);
    } catch (error) {
      // It has waited for a table that was lost.
      if (!(this.#log.hasty && isHaste(error))) throw error;
    }
    return met[0] ?? call;
  }

  #keyMet({ outgoing }: Request, keyBytes: number): number {
    const name = Buffer.from(outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes));
    return this.#log.keys.indexOf(name.toString());
  }

  #concrete(call: Call): Call {
    if (call.kind !== 'write' && call.kind !== 'remove') return call;
    const isSeen = call.expected === LAST_SEEN;
    const expected = isSeen ? (this.#seen.get(call.key) ?? 0) : call.expected;
    const made = { ...call, expected } as Call;
    if (made.kind === 'write' && made.times && made.times !== 'never') {
      const { deadline, slidingDeadline } = this.#log.clock;
      made.deadline = made.times === 'sliding' ? slidingDeadline : deadline;
    }
    return made;
  }

  #remember({ found, version, outcome }: Result, key: number): void {
    if (outcome === INSERTED || outcome === STORED) this.#seen.set(key, version);
    else if (found) this.#seen.set(key, found.version);
  }

  *#run(call: Call): Operation<Result> {
    const request = this.#request;
    const index = this.#index;
    const { records } = index;
    const key = this.#log.keys[call.key];
    if (call.kind === 'write') {
      records.encode(request, key, call.value, call.version, this.#expiryOf(call));
      const outcome = yield* index.write(request, call.condition, call.expected);
      this.#checkDisplaced(outcome, outcome === REPLACED);
      const blind = outcome === INSERTED || outcome === STORED;
      const found = !blind && request.found.at >= 0;
      return yield* this.#result(outcome, found);
    }
    request.setKey(key, index.records.seed, call.kind === 'modify' ? bytesBound(call.value) : 0);
    if (call.kind === 'search') {
      const kept = yield* this.#readNear(key);
      if (kept !== undefined) return { outcome: REPLACED, found: kept, version: 0 };
      const present = (yield* index.search(request)) && !records.isExpired(request);
      if (present && request.accessAt >= 0) yield* this.#use();
      const result = yield* this.#result(present ? REPLACED : REFUSED, present);
      this.#keepNear(key, result.found);
      return result;
    }
    if (call.kind === 'remove') {
      request.sparedIfUsedAfter = call.usedAfter ?? Number.POSITIVE_INFINITY;
      const displaced = yield* index.remove(request, call.expected);
      this.#checkDisplaced(REPLACED, displaced);
      const present = displaced && !records.isExpired(request);
      return yield* this.#result(present ? REPLACED : REFUSED, present);
    }
    const compute = (present: boolean) => {
      const next = present ? String(Number(foundState(request)?.value) + 1) : call.value;
      records.encodeValue(request, next, call.version);
    };
    const outcome = yield* index.modify(request, compute);
    this.#checkDisplaced(outcome, outcome === REPLACED);
    return yield* this.#result(outcome, outcome === REPLACED);
  }

  *#readNear(key: string): Operation<KeyState> {
    if (this.#near === undefined) return undefined;
    const kept = yield* this.#near.read(key);
    return kept === UNPROVEN ? undefined : (kept as KeyState);
  }

  /** The first read counts twice. */
  #keepNear(key: string, found: KeyState): void {
    if (this.#near === undefined) return;
    if (found === undefined) this.#near.forget(key);
    else for (let read = 0; read < 2; read++) this.#near.keep(key, this.#request, found);
  }

  /** As a hit of a bounded store: without the lock of the leaf that has the item. */
  *#use(): Operation<void> {
    const request = this.#request;
    const { clock, now } = this.#log;
    const slides = (request.found.flags & FLAG_SLIDING) !== 0;
    if (!slides) return yield* this.#index.records.touch(request);
    const record = this.current as CallRecord;
    record.usedAt = now();
    const ends = clock.use(encodeState(foundState(request)), record.usedAt);
    yield* this.#index.records.touch(request);
    ends();
  }

  #expiryOf({ times }: Write): Expiry | undefined {
    const { clock } = this.#log;
    if (times === undefined) return undefined;
    if (times === 'never') return NEVER;
    const sliding = times === 'sliding';
    return { deadline: sliding ? clock.span : clock.deadline, sliding };
  }

  /** The time by which bounded stores count uses. */
  #checkDisplaced(outcome: Outcome, expected: boolean): void {
    if (!this.#log.counts || outcome === STORED || this.#request.displaced === expected) return;
    const { name } = this.#index.manifest;
    throw new Error(
      `${name}: an operation displaced ${expected ? 'a' : 'no'} record, and denies it`,
    );
  }

  /** Within the operation: the blocks of a chained value are read now, before an epoch passes. */
  *#result(outcome: Outcome, isFound: boolean): Operation<Result> {
    const request = this.#request;
    let found: KeyState;
    if (isFound) {
      yield* this.#index.records.complete(request);
      found = foundState(request);
    }
    return { outcome, found, version: request.record.version };
  }
}
