import { readFileSync } from 'node:fs';
import {
  checkHistory,
  type HistoryOperation,
  ILLEGAL,
} from '../../verification/checks/linearizability.ts';

export const KINDS = ['get', 'set', 'insert', 'update', 'delete', 'take', 'increment'] as const;
export type Kind = (typeof KINDS)[number];

/** The value of a key. Values are numbers, so that `increment` works on each of them. */
type State = string | undefined;

/** A call in the history of a run. Times are of the clock that all processes of a machine share. */
export class StoreCall implements HistoryOperation<State> {
  readonly client: string;
  readonly kind: Kind;
  readonly key: string;
  readonly value: string;
  readonly invoked: number;
  /** Infinity if the call failed or its client died: it may or may not have happened. */
  responded = Number.POSITIVE_INFINITY;
  /** The store's answer: a value, `null` for none, or whether the call changed something. */
  answer: string | boolean | null | undefined;

  constructor(client: string, kind: Kind, key: string, value: string, invoked: number) {
    this.client = client;
    this.kind = kind;
    this.key = key;
    this.value = value;
    this.invoked = invoked;
  }

  apply(state: State): State | typeof ILLEGAL {
    const { expected, next } = this.#effect(state);
    return this.answer === undefined || this.answer === expected ? next : ILLEGAL;
  }

  #effect(state: State): { expected: string | boolean | null; next: State } {
    const present = state !== undefined;
    const { value } = this;
    switch (this.kind) {
      case 'get':
        return { expected: state ?? null, next: state };
      case 'set':
        return { expected: true, next: value };
      case 'insert':
        return { expected: !present, next: present ? state : value };
      case 'update':
        return { expected: present, next: present ? value : undefined };
      case 'delete':
        return { expected: present, next: undefined };
      case 'take':
        return { expected: state ?? null, next: undefined };
      case 'increment': {
        const sum = String(Number(state ?? 0) + 1);
        return { expected: sum, next: sum };
      }
    }
  }

  describe(): string {
    const end = this.responded === Number.POSITIVE_INFINITY ? 'never' : String(this.responded);
    const what = `${this.kind} ${this.key} ${this.value}`.trim();
    return `  [${this.invoked} ${end}] ${this.client} ${what} -> ${JSON.stringify(this.answer)}`;
  }
}

export type LogLine =
  | { id: number; kind: Kind; key: string; value: string; at: number }
  | { id: number; answer: string | boolean | null; at: number };

/** The calls that a client logged. The last line may be incomplete, if the client was killed. */
export function readCalls(client: string, path: string): StoreCall[] {
  const calls = new Map<number, StoreCall>();
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  for (const line of lines) {
    const noted = JSON.parse(line) as LogLine;
    if ('kind' in noted) {
      const { id, kind, key, value, at } = noted;
      calls.set(id, new StoreCall(client, kind, key, value, at));
      continue;
    }
    const call = calls.get(noted.id);
    if (call === undefined) throw new Error(`${path} answers what was not asked`);
    call.responded = noted.at;
    call.answer = noted.answer;
  }
  return [...calls.values()];
}

/**
 * Describes, key by key, the calls that no order explains; empty if the history is linearizable.
 */
export function judge(calls: readonly StoreCall[]): string[] {
  const byKey = new Map<string, StoreCall[]>();
  for (const call of calls) {
    // A get without an answer proves nothing.
    if (call.kind === 'get' && call.answer === undefined) continue;
    byKey.set(call.key, [...(byKey.get(call.key) ?? []), call]);
  }
  const faults: string[] = [];
  for (const [key, ofKey] of byKey) {
    const verdict = checkHistory<State>(ofKey, undefined, (state) => state ?? '-');
    if (verdict.linearizable) continue;
    const explained = new Set(verdict.order);
    const rest = ofKey.filter((_, i) => !explained.has(i)).map((call) => call.describe());
    const all = ofKey.toSorted((a, b) => a.invoked - b.invoked).map((call) => call.describe());
    faults.push(
      `the calls on ${key} cannot be put in order:\n${all.join('\n')}\n` +
        `the longest order ends in ${verdict.state} and leaves out\n${rest.join('\n')}`,
    );
  }
  return faults;
}
