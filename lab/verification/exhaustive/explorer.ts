import { independent, type Step, type StepId, Trace } from './trace.ts';

/** The explored program. It begins again when asked and behaves the same each time. */
export interface Model {
  begin(): void;
  /**
   * Steps that can happen now; none at the end of an execution. A step that can happen stays so
   * until it happens or its client ends; one that waits for a word's change touches that word.
   */
  enabled(): readonly StepId[];
  perform(id: StepId): Step;
  /** Whether the execution was given up before its end, because it grew too long. */
  readonly cut: boolean;
  /** Called at the end of every complete execution; returns a text if it failed. */
  verdict(): string | undefined;
}

export interface Exploration {
  /** Complete executions, no two of which are equivalent. */
  schedules: number;
  /** Executions given up because every step that was left had been explored before. */
  redundant: number;
  /** Executions given up because they grew too long. */
  cut: number;
  steps: number;
  /** Whether nothing was left when the search ended. */
  exhausted: boolean;
  failure: { text: string; schedule: StepId[] } | undefined;
}

interface Node {
  chosen: StepId;
  step: Step | undefined;
  readonly enabled: readonly StepId[];
  /** Steps that have to be tried from here. */
  backtrack: Set<StepId>;
  /** Steps that need not be tried (again) from here, with what they did when they were. */
  sleep: Map<StepId, Step>;
}

/**
 * Runs every schedule of a small program up to the order of independent steps. The method is
 * dynamic partial-order reduction by source sets with sleep sets (Abdulla, Aronis, Jonsson,
 * Sagonas: Optimal dynamic partial order reduction, POPL 2014, Algorithm 1). Generators cannot be
 * copied, so each execution starts over and replays up to the point at which it branches off.
 */
export class Explorer {
  readonly #model: Model;
  readonly #nodes: Node[] = [];
  readonly #trace = new Trace();
  readonly #result: Exploration = {
    schedules: 0,
    redundant: 0,
    cut: 0,
    steps: 0,
    exhausted: false,
    failure: undefined,
  };

  constructor(model: Model) {
    this.#model = model;
  }

  /**
   * Yields after every execution, for as long as the caller goes on; ends when nothing is left or
   * something fails.
   */
  *run(): Generator<Exploration, Exploration> {
    const result = this.#result;
    do {
      this.#execute();
      yield result;
      if (result.failure !== undefined) return result;
    } while (this.#branch());
    result.exhausted = true;
    return result;
  }

  /** One execution: the known prefix, then any possible step. */
  #execute(): void {
    const model = this.#model;
    model.begin();
    for (const node of this.#nodes) this.#perform(node);
    for (;;) {
      const enabled = model.enabled();
      if (enabled.length === 0) break;
      const sleep = this.#sleepAtEnd();
      const id = enabled.find((one) => !sleep.has(one));
      if (id === undefined) {
        this.#result.redundant++;
        return;
      }
      const node = { chosen: id, step: undefined, enabled, backtrack: new Set([id]), sleep };
      this.#nodes.push(node);
      this.#perform(node);
    }
    if (model.cut) this.#result.cut++;
    else this.#conclude();
  }

  #conclude(): void {
    this.#result.schedules++;
    const text = this.#model.verdict();
    if (text !== undefined) {
      this.#result.failure = { text, schedule: this.#nodes.map(({ chosen }) => chosen) };
    }
  }

  #perform(node: Node): void {
    const step = this.#model.perform(node.chosen);
    this.#result.steps++;
    // It is in the trace already.
    if (node.step !== undefined) return;
    node.step = step;
    const races = this.#trace.push(node.chosen, step);
    for (const earlier of races) this.#reverse(earlier, this.#trace.length - 1);
  }

  /** Sees to it that some execution does the two racing steps the other way round. */
  #reverse(earlier: number, later: number): void {
    const { backtrack, enabled } = this.#nodes[earlier];
    // A step that waited for the earlier one cannot come before it.
    const initials = this.#trace.initials(earlier, later).filter((id) => enabled.includes(id));
    if (initials.length > 0 && !initials.some((id) => backtrack.has(id))) {
      backtrack.add(initials[0]);
    }
  }

  /** Steps not to try next: asleep or done before, and independent of the last one. */
  #sleepAtEnd(): Map<StepId, Step> {
    const sleep = new Map<StepId, Step>();
    const last = this.#nodes.at(-1);
    if (last === undefined) return sleep;
    for (const [id, step] of last.sleep) {
      if (independent(step, last.step as Step)) sleep.set(id, step);
    }
    return sleep;
  }

  /** Turns to the deepest step that has to be tried and was not; false when there is none. */
  #branch(): boolean {
    for (;;) {
      const node = this.#nodes.at(-1);
      if (node === undefined) return false;
      node.sleep.set(node.chosen, node.step as Step);
      for (const id of node.backtrack) {
        if (node.sleep.has(id)) continue;
        node.chosen = id;
        node.step = undefined;
        this.#trace.truncate(this.#nodes.length - 1);
        return true;
      }
      this.#nodes.pop();
    }
  }
}
