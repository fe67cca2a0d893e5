/**
 * Whether a history of one object could have happened one operation after the other, each at some
 * moment between its invocation and its response (Wing and Gong's search with Lowe's memoisation).
 * It knows nothing about the object: `apply` says which states an operation allows.
 */
export interface HistoryOperation<S> {
  invoked: number;
  /** Infinity when the client died before the response: it may have happened or not. */
  responded: number;
  /** The state after the operation, or ILLEGAL when its result is impossible in this state. */
  apply(state: S): S | typeof ILLEGAL;
  /** Another state that there may be after it, of an operation for which there are two. */
  otherwise?(state: S): S | typeof ILLEGAL;
}

export const ILLEGAL: unique symbol = Symbol('illegal');

export interface Verdict<S> {
  linearizable: boolean;
  /** One order that explains the history, or the longest that was found. */
  order: number[];
  /** The state after `order`. */
  state: S;
}

/** `encode` gives equal states equal texts. */
export function checkHistory<S>(
  operations: readonly HistoryOperation<S>[],
  initial: S,
  encode: (state: S) => string,
): Verdict<S> {
  const sorted = operations.map((operation, index) => ({ operation, index }));
  sorted.sort((a, b) => a.operation.invoked - b.operation.invoked);
  const search = new Search(
    sorted.map(({ operation }) => operation),
    encode,
  );
  const found = search.from(initial);
  return {
    linearizable: found,
    order: search.best.map((i) => sorted[i].index),
    state: search.bestState ?? initial,
  };
}

class Search<S> {
  readonly #operations: readonly HistoryOperation<S>[];
  readonly #encode: (state: S) => string;
  readonly #done: Uint8Array;
  readonly #seen = new Set<string>();
  readonly #order: number[] = [];
  #mustHappen: number;
  best: number[] = [];
  bestState: S | undefined;

  constructor(operations: readonly HistoryOperation<S>[], encode: (state: S) => string) {
    this.#operations = operations;
    this.#encode = encode;
    this.#done = new Uint8Array(operations.length);
    this.#mustHappen = operations.filter(({ responded }) => responded !== Infinity).length;
  }

  from(state: S): boolean {
    if (this.#order.length >= this.best.length || this.#mustHappen === 0) {
      this.best = [...this.#order];
      this.bestState = state;
    }
    if (this.#mustHappen === 0) return true;
    if (this.#wasHere(state)) return false;
    // Only what was invoked before every open operation's response can come next.
    let horizon = Number.POSITIVE_INFINITY;
    const operations = this.#operations;
    for (let i = 0; i < operations.length; i++) {
      if (this.#done[i] === 1) continue;
      const operation = operations[i];
      if (operation.invoked > horizon) break;
      if (operation.responded < horizon) horizon = operation.responded;
    }
    for (let i = 0; i < operations.length; i++) {
      if (this.#done[i] === 1) continue;
      if (operations[i].invoked > horizon) break;
      if (this.#tryNext(i, state)) return true;
    }
    return false;
  }

  #tryNext(i: number, state: S): boolean {
    const operation = this.#operations[i];
    if (this.#goesOn(i, operation.apply(state))) return true;
    return operation.otherwise !== undefined && this.#goesOn(i, operation.otherwise(state));
  }

  #goesOn(i: number, next: S | typeof ILLEGAL): boolean {
    if (next === ILLEGAL) return false;
    const completed = this.#operations[i].responded !== Infinity ? 1 : 0;
    this.#done[i] = 1;
    this.#mustHappen -= completed;
    this.#order.push(i);
    if (this.from(next)) return true;
    this.#order.pop();
    this.#mustHappen += completed;
    this.#done[i] = 0;
    return false;
  }

  #wasHere(state: S): boolean {
    const done = this.#done;
    let first = 0;
    while (first < done.length && done[first] === 1) first++;
    let last = done.length - 1;
    while (last > first && done[last] === 0) last--;
    let bits = '';
    for (let i = first; i <= last; i++) bits += done[i];
    const key = `${first}:${bits}:${this.#encode(state)}`;
    if (this.#seen.has(key)) return true;
    this.#seen.add(key);
    return false;
  }
}
