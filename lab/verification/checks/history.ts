import {
  ALWAYS,
  type Condition,
  EXCHANGE,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
  STORED,
} from '../../../src/indexes/contract.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { decodeFrom } from '../../../src/records/codec.ts';
import { type HistoryOperation, ILLEGAL } from './linearizability.ts';
import type { RunClock } from './run-clock.ts';

/** A key's content, as the checker models it, and when it expires at the earliest. */
export type KeyState = { value: string; version: number; expires?: number } | undefined;

export const encodeState = (state: KeyState): string =>
  state === undefined ? '-' : `${Number(state.value)}@${state.version}`;

/** The request's found record, complete. */
export function foundState(request: Request): KeyState {
  const {
    memory: found,
    contentAt,
    contentBytes,
    codec: foundCodec,
    version: foundVersion,
  } = request.found;
  const value = String(decodeFrom(found, contentAt, contentBytes, foundCodec));
  return { value, version: foundVersion };
}

/** Stands for the version that the client saw last, in a planned compare-and-set. */
export const LAST_SEEN = -1;

/**
 * What a client asks for. Values are decimal numbers, different for every call, so that each can be
 * told apart. A search says `by` what the key was met, or missed, if not by one of its own.
 */
export type Call = { key: number } & (
  | { kind: 'search'; by?: 'walk' | 'batch' }
  /**
   * With `expected`, only of the record of that version; `sampled`: of one that a sample meets,
   * unless it is `usedAfter` so many ticks; `together`: of all that the key's table holds, or of
   * some of the index's buckets.
   */
  | { kind: 'remove'; expected?: number; sampled?: number; together?: boolean; usedAfter?: number }
  | Write
  /** Adds 1 to the value, or stores `value` when there is none. */
  | { kind: 'modify'; value: string; version: number }
);

/**
 * With `times` the record notes its uses, and expires at the next deadline of the run (`sliding`:
 * the second one after a use), or never. The call that is made says which deadline that is.
 */
export interface Write {
  kind: 'write';
  condition: Condition;
  expected: number;
  value: string;
  version: number;
  times?: 'deadline' | 'sliding' | 'never';
  deadline?: number;
}

export interface Result {
  /** INSERTED, REPLACED or REFUSED for a write; for search and remove REPLACED means present. */
  outcome: Outcome;
  /** The record that the call found. */
  found: KeyState;
  /** Version of the record that was written. */
  version: number;
}

/** A call in the history of a run. */
export class CallRecord implements HistoryOperation<KeyState> {
  readonly client: string;
  readonly call: Call;
  readonly invoked: number;
  responded = Number.POSITIVE_INFINITY;
  result: Result | undefined;
  /** Raised an error that promises that nothing has happened. */
  refusedBy: string | undefined;
  /** Whether an insertion may give its record another version than the one asked for. */
  anyVersion = false;
  /** Whether the index chooses the versions of records: never the same one twice for a key. */
  ownVersions = false;
  /** Its client died during the call. */
  crashed = false;
  /** It removes many keys, and does not tell whether this one was among them. */
  clears = false;
  /** Its client has given it up: it may have happened, or happen at any time later, or never. */
  givenUp = false;
  readonly clock: RunClock;
  /** When it noted the use of a record that slides. */
  usedAt = Number.POSITIVE_INFINITY;

  /** Records expire by `clock`. */
  constructor(client: string, call: Call, invoked: number, clock: RunClock) {
    this.client = client;
    this.call = call;
    this.invoked = invoked;
    this.clock = clock;
  }

  /** A search that was made together with others. */
  static seen(
    client: string,
    call: Call & { kind: 'search' },
    found: KeyState,
    invoked: number,
    responded: number,
    clock: RunClock,
  ): CallRecord {
    const record = new CallRecord(client, call, invoked, clock);
    record.responded = responded;
    record.result = { outcome: found ? REPLACED : REFUSED, found, version: 0 };
    return record;
  }

  #withOwnVersion(next: NonNullable<KeyState>, state: KeyState): KeyState | typeof ILLEGAL {
    const version = this.result?.version ?? ANY;
    return version !== ANY && version === state?.version ? ILLEGAL : { ...next, version };
  }

  /**
   * A call judges a record that expires by the clock at some moment of its own: calls that were in
   * flight when the deadline passed may take it for present or for absent.
   */
  apply(state: KeyState): KeyState | typeof ILLEGAL {
    if (this.clears) return state;
    if (state?.expires === undefined) return this.#applyTo(state);
    const passedAt = this.clock.passedAt(state.expires);
    return this.responded > passedAt ? this.#applyToExpired(state) : ILLEGAL;
  }

  /**
   * The record counts for present. One that slides may so be present after it was absent: its uses
   * are noted by WRITEs in any order, and the last one counts.
   */
  otherwise(state: KeyState): KeyState | typeof ILLEGAL {
    if (this.clears) return undefined;
    if (state?.expires === undefined) return ILLEGAL;
    const { clock, invoked, responded, usedAt } = this;
    const before = Math.min(usedAt, responded);
    const last = clock.lastDeadline(encodeState(state), state.expires, before);
    const passedAt = clock.passedAt(last);
    // It looks at the clock when the record is gone: it may have expired since, for it alone.
    const judgesLate = this.call.kind === 'remove' && this.result?.outcome === REFUSED;
    if (judgesLate && invoked < passedAt && passedAt < responded) return undefined;
    return invoked < passedAt ? this.#applyTo(state) : ILLEGAL;
  }

  /** The record counts for absent; whether a sweep has taken it out nobody can tell. */
  #applyToExpired(state: KeyState): KeyState | typeof ILLEGAL {
    const { anyVersion } = this;
    this.anyVersion = true;
    const next = this.#applyTo(undefined);
    this.anyVersion = anyVersion;
    return next ?? state;
  }

  #applyTo(state: KeyState): KeyState | typeof ILLEGAL {
    const { call, result } = this;
    const tells = result !== undefined && tellsFound(call, result.outcome);
    if (tells && !same(result.found, state)) return ILLEGAL;
    const spares = call.kind === 'remove' && call.usedAfter !== undefined;
    if (spares && result?.outcome === REFUSED) return state;
    // A removal that spared the record does not tell which version it met.
    if (result?.outcome === REFUSED && call.kind === 'remove' && state?.version === ANY) {
      return call.expected === undefined ? ILLEGAL : state;
    }
    // The version that a dead client's write left is known only from a reader.
    const seen = tells && state?.version === ANY ? result.found : undefined;
    const known = state && seen ? { ...state, version: seen.version } : state;
    const outcome = expectedOutcome(call, known);
    if (result !== undefined && !agrees(result.outcome, outcome, call)) return ILLEGAL;
    const next = nextState(call, known, outcome);
    if (next === undefined || next === known) return next;
    if (this.ownVersions) return this.#withOwnVersion(next, known);
    if (this.anyVersion && (state === undefined || state.version === ANY)) {
      return { ...next, version: result?.version ?? ANY };
    }
    return result !== undefined && result.version !== next.version ? ILLEGAL : next;
  }
}

/** A version that nobody has seen. */
const ANY = -1;

/** Whether the result says what the key held. */
function tellsFound(call: Call, outcome: Outcome): boolean {
  if (call.kind === 'remove' && call.expected !== undefined) return outcome !== REFUSED;
  return outcome !== INSERTED && outcome !== STORED;
}

/** A blind write does not say whether it replaced anything. */
function agrees(actual: Outcome, expected: Outcome, call: Call): boolean {
  if (actual !== STORED) return actual === expected;
  return call.kind === 'write' && call.condition === ALWAYS;
}

function same(a: KeyState, b: KeyState): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.value === b.value && (a.version === b.version || b.version === ANY);
}

function expectedOutcome(call: Call, state: KeyState): Outcome {
  if (call.kind === 'search') return state ? REPLACED : REFUSED;
  if (call.kind === 'remove') {
    return state && isVersion(state, call.expected) ? REPLACED : REFUSED;
  }
  if (call.kind === 'modify') return state ? REPLACED : INSERTED;
  const { condition, expected } = call;
  if (state === undefined) {
    return condition === ALWAYS || condition === IF_ABSENT ? INSERTED : REFUSED;
  }
  if (condition === IF_ABSENT) return REFUSED;
  return condition !== IF_VERSION || isVersion(state, expected) ? REPLACED : REFUSED;
}

function isVersion({ version }: NonNullable<KeyState>, expected: number | undefined): boolean {
  return expected === undefined || version === expected || version === ANY;
}

function nextState(call: Call, state: KeyState, outcome: Outcome): KeyState {
  if (outcome === REFUSED || call.kind === 'search') return state;
  if (call.kind === 'remove') return undefined;
  const version = state === undefined ? call.version : (state.version + 1) >>> 0;
  const increments = call.kind === 'modify' && state !== undefined;
  const value = increments ? String(Number(state.value) + 1) : call.value;
  const expires = call.kind === 'write' ? call.deadline : undefined;
  return expires === undefined ? { value, version } : { value, version, expires };
}

const CONDITIONS = {
  [ALWAYS]: 'put',
  [IF_ABSENT]: 'insert',
  [IF_PRESENT]: 'update',
  [IF_VERSION]: 'cas',
  [EXCHANGE]: 'exchange',
} as const;

/** One line for people: what was asked, when, and what came back. */
export function describe(record: CallRecord, names: readonly string[]): string {
  const { call, result } = record;
  const key = names[call.key];
  let text = `${call.kind} ${key}`;
  if (call.kind === 'search' && call.by) text = `${call.by} looks at ${key}`;
  if (call.kind === 'modify')
    text = `increment ${key} (else ${Number(call.value)}@${call.version})`;
  if (call.kind === 'remove' && call.expected !== undefined) text += ` if @${call.expected}`;
  if (call.kind === 'write') {
    text = `${CONDITIONS[call.condition]} ${key} = ${Number(call.value)}@${call.version}`;
    if (call.condition === IF_VERSION) text += ` if @${call.expected}`;
  }
  return `${text} -> ${record.refusedBy ?? outcomeText(record, result)}`;
}

function outcomeText(record: CallRecord, result: Result | undefined): string {
  const { call, crashed, givenUp } = record;
  if (result === undefined) return crashed ? 'crashed' : givenUp ? 'given up' : 'never returned';
  const found = result.found === undefined ? 'nothing' : encodeState(result.found);
  if (call.kind === 'search') return found;
  if (call.kind === 'remove') {
    if (result.outcome !== REFUSED) return `removed ${found}`;
    return call.expected === undefined ? 'absent' : 'refused';
  }
  if (result.outcome === INSERTED) return `inserted @${result.version}`;
  if (result.outcome === STORED) return `stored @${result.version}`;
  if (result.outcome === REFUSED) return `refused, found ${found}`;
  return `replaced ${found} by @${result.version}`;
}

/** Another action of a client, for the timeline. */
export interface Note {
  client: string;
  invoked: number;
  responded: number;
  text: string;
}

/** Per-client columns would not fit a terminal: one line a call, in the order of invocation. */
export function timeline(
  records: readonly CallRecord[],
  names: readonly string[],
  notes: readonly Note[] = [],
): string {
  const all = [
    ...records.map((record) => ({
      client: record.client,
      invoked: record.invoked,
      responded: record.responded,
      text: describe(record, names),
    })),
    ...notes,
  ];
  const lines = all
    .sort((a, b) => a.invoked - b.invoked)
    .map(({ client, invoked, responded, text }) => {
      const end = responded === Infinity ? '…' : String(responded);
      const when = `[${String(invoked).padStart(6)} ${end.padStart(6)}]`;
      return `  ${when} ${client.padEnd(4)} ${text}`;
    });
  return lines.join('\n');
}
