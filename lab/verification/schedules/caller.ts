import { StepwellError } from '../../../src/errors.ts';
import {
  INSERTED,
  type Index,
  type Outcome,
  REFUSED,
  REPLACED,
  STORED,
} from '../../../src/indexes/contract.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { bytesBound, decodeFrom } from '../../../src/records/codec.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import { type Expiry, NEVER } from '../../../src/records/times.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import {
  type Call,
  CallRecord,
  type KeyState,
  LAST_SEEN,
  type Result,
  type Write,
} from '../checks/history.ts';
import type { Sight } from '../checks/snapshots.ts';

/** Errors that promise that the operation did nothing. */
const HARMLESS: ReadonlySet<string> = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL']);
/** Of a client that soon gives up: that one too. */
const CONTENTION = 'SW_CONTENTION';
/** Errors of a client that has waited in vain for others, who may do it later all the same. */
const TIMEOUT = 'SW_TIMEOUT';

/** When the records of a run expire that do. */
export const DEADLINE = 1_000_000;

/** Records of a sample. */
const SAMPLE = 4;

/** Whether this says that a hasty client has given up. */
export function isHaste(error: unknown): boolean {
  if (!(error instanceof StepwellError)) return false;
  return error.code === TIMEOUT || error.code === CONTENTION;
}

/** Where a caller finds the time and the keys, and leaves what it did. */
export interface CallLog {
  now(): number;
  keys: readonly string[];
  /** Whether calls may be given up. */
  hasty?: boolean;
  /** Whether operations have to say what they displace: not where merged ones share a request's. */
  counts?: boolean;
  /** Takes what a step of a scan has handed out, of an index of which that is of one moment. */
  snapshot?: (seen: readonly Sight[]) => void;
  record(record: CallRecord): void;
}

/** Turns calls into operations of an index; writes down when each was made and what came back. */
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

  constructor(name: string, index: Index, log: CallLog) {
    this.#name = name;
    this.#index = index;
    this.#log = log;
    this.#request = index.newRequest();
  }

  *perform(planned: Call): Operation<void> {
    const call = this.#concrete(yield* this.#victim(planned));
    const record = new CallRecord(this.#name, call, this.#log.now());
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

  #giveUp(record: CallRecord): void {
    record.givenUp = true;
    this.refused = false;
    this.current = undefined;
  }

  /** What a sampled removal removes: a record that the index's sample meets, of that version. */
  *#victim(call: Call): Operation<Call> {
    const index = this.#index;
    if (call.kind !== 'remove' || call.sampled === undefined || !index.sample) return call;
    const { keys } = this.#log;
    const met: Call[] = [];
    const visit = ({ outgoing, foundVersion }: Request, keyBytes: number) => {
      const name = Buffer.from(outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes));
      const key = keys.indexOf(name.toString());
      if (key >= 0) met.push({ key, kind: 'remove', expected: foundVersion });
    };
    yield* index.sample(this.#request, [call.sampled], SAMPLE, visit);
    return met[0] ?? call;
  }

  #concrete(call: Call): Call {
    const compares = call.kind === 'write' || call.kind === 'remove';
    if (!compares || call.expected !== LAST_SEEN) return call;
    return { ...call, expected: this.#seen.get(call.key) ?? 0 };
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
      records.encode(request, key, call.value, index.hashSeed, call.version, expiryOf(call));
      const outcome = yield* index.write(request, call.condition, call.expected);
      this.#checkDisplaced(outcome, outcome === REPLACED);
      const blind = outcome === INSERTED || outcome === STORED;
      const found = !blind && request.foundAt >= 0;
      return yield* this.#result(outcome, found);
    }
    request.setKey(key, index.hashSeed, call.kind === 'modify' ? bytesBound(call.value) : 0);
    if (call.kind === 'search' || call.kind === 'remove') {
      const present =
        call.kind === 'search'
          ? (yield* index.search(request)) && !records.isExpired(request)
          : yield* index.remove(request, call.expected);
      if (call.kind === 'remove') this.#checkDisplaced(REPLACED, present);
      // As a hit of a bounded store: without the lock of the leaf that has the item.
      else if (present && request.accessAt >= 0) yield* index.touch(request);
      return yield* this.#result(present ? REPLACED : REFUSED, present);
    }
    const compute = (present: boolean) => {
      const next = present ? String(Number(textOf(request)) + 1) : call.value;
      records.encodeValue(request, next, call.version);
    };
    const outcome = yield* index.modify(request, compute);
    this.#checkDisplaced(outcome, outcome === REPLACED);
    return yield* this.#result(outcome, outcome === REPLACED);
  }

  /** What bounded stores count by, where nothing expires. */
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
      found = { value: textOf(request), version: request.foundVersion };
    }
    return { outcome, found, version: request.outgoingVersion };
  }
}

function expiryOf({ times }: Write): Expiry | undefined {
  if (times === undefined) return undefined;
  return times === 'never' ? NEVER : { deadline: DEADLINE, sliding: false };
}

function textOf({ found, contentAt, contentBytes, foundCodec }: Request): string {
  return String(decodeFrom(found, contentAt, contentBytes, foundCodec));
}
