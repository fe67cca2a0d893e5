/** Names a step; the same step has the same name in every execution in which it happens. */
export type StepId = number;

/** How a step touches a word. INVOKE and RETURN stand for the real-time order of a history. */
export const LOAD = 0;
export const STORE = 1;
export const INVOKE = 2;
export const RETURN = 3;

/** What one step did. `words[i]` was touched as `kinds[i]` says. */
export interface Step {
  /** Steps of the same client that come before this one in every execution. */
  after: readonly StepId[];
  words: readonly number[];
  kinds: readonly number[];
}

/** Two accesses of a word whose order matters. */
function conflict(a: number, b: number): boolean {
  return a === STORE || b === STORE || (a >= INVOKE && b >= INVOKE && a !== b);
}

/** Whether two steps that can both happen next may change places. */
export function independent(a: Step, b: Step): boolean {
  for (let i = 0; i < a.words.length; i++) {
    for (let j = 0; j < b.words.length; j++) {
      if (a.words[i] === b.words[j] && conflict(a.kinds[i], b.kinds[j])) return false;
    }
  }
  return true;
}

/** An access of a word, and those before it. */
interface Access {
  event: number;
  kind: number;
  former: Access | undefined;
}

/**
 * The steps of one execution with their happens-before relation: program order, and the order of
 * conflicting accesses. Two executions with the same relation differ in nothing that a client or a
 * checker could see.
 */
export class Trace {
  readonly ids: StepId[] = [];
  readonly #steps: Step[] = [];
  /** By event: a bit for every event that happens before it. */
  readonly #before: Uint32Array[] = [];
  readonly #eventOf = new Map<StepId, number>();
  /** By word: the accesses since and including the last STORE, the latest first. */
  readonly #accesses = new Map<number, Access>();
  /** By event: the words that it touched, with the accesses before it. */
  readonly #former: (readonly [word: number, Access | undefined])[][] = [];

  get length(): number {
    return this.ids.length;
  }

  step(event: number): Step {
    return this.#steps[event];
  }

  /** Takes steps back until so many are left. */
  truncate(length: number): void {
    while (this.length > length) {
      for (const [word, access] of this.#former.pop()?.reverse() ?? []) {
        if (access === undefined) this.#accesses.delete(word);
        else this.#accesses.set(word, access);
      }
      this.#steps.pop();
      this.#before.pop();
      this.#eventOf.delete(this.ids.pop() as StepId);
    }
  }

  happensBefore(earlier: number, later: number): boolean {
    return ((this.#before[later][earlier >> 5] >>> (earlier & 31)) & 1) === 1;
  }

  /**
   * Adds a step and returns the earlier events that it races with: those that conflict with it and
   * could as well have come later, because nothing else puts them before it.
   */
  push(id: StepId, step: Step): number[] {
    const event = this.ids.length;
    const before = new Uint32Array((event >> 5) + 1);
    this.ids.push(id);
    this.#steps.push(step);
    this.#before.push(before);
    this.#eventOf.set(id, event);
    for (const predecessor of step.after) this.#join(before, this.#indexOf(predecessor));
    const races: number[] = [];
    for (const earlier of this.#conflicts(step)) {
      if (((before[earlier >> 5] >>> (earlier & 31)) & 1) === 1) continue;
      races.push(earlier);
      this.#join(before, earlier);
    }
    this.#note(event, step);
    return races;
  }

  #indexOf(id: StepId): number {
    const event = this.#eventOf.get(id);
    if (event === undefined) throw new Error(`step ${id} has not happened`);
    return event;
  }

  #join(before: Uint32Array, event: number): void {
    const theirs = this.#before[event];
    for (let i = 0; i < theirs.length; i++) before[i] |= theirs[i];
    before[event >> 5] |= 1 << (event & 31);
  }

  /** Latest first, so that a race through another one is seen as such. */
  #conflicts({ words, kinds }: Step): number[] {
    const found = new Set<number>();
    for (let i = 0; i < words.length; i++) {
      let access = this.#accesses.get(words[i]);
      for (; access !== undefined; access = access.former) {
        if (conflict(access.kind, kinds[i])) found.add(access.event);
      }
    }
    return [...found].sort((a, b) => b - a);
  }

  #note(event: number, { words, kinds }: Step): void {
    const touched = words.map((word, i) => {
      const kind = kinds[i];
      const former = this.#accesses.get(word);
      this.#accesses.set(word, { event, kind, former: kind === STORE ? undefined : former });
      return [word, former] as const;
    });
    this.#former.push(touched);
  }

  /**
   * Steps that could come first when everything after `earlier` that does not depend on it, and
   * then `later`, is done without it.
   */
  initials(earlier: number, later: number): StepId[] {
    const rest: number[] = [];
    for (let event = earlier + 1; event < later; event++) {
      if (!this.happensBefore(earlier, event)) rest.push(event);
    }
    rest.push(later);
    const free = rest.filter((event, i) => {
      for (let j = 0; j < i; j++) if (this.happensBefore(rest[j], event)) return false;
      return true;
    });
    return free.map((event) => this.ids[event]);
  }
}
