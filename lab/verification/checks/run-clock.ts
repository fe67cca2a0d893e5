/** Milliseconds from one deadline of a run to the next. */
const PERIOD = 1_000_000;
/** So much later it is at each turn of a sweep, so that one is due: see expiry-sweep.ts. */
const TURN_MS = 100;

/** A record that slides was used: it may be there until `deadline`. */
interface Use {
  at: number;
  deadline: number;
}

/**
 * The time of day in a run, the same for all its clients. It moves by jumps, each over the next
 * deadline of records, and by steps that pass none.
 */
export class RunClock {
  /** When each deadline was passed, in steps of the run. */
  readonly #passed: number[] = [];
  readonly #uses = new Map<string, Use[]>();
  #turns = 0;

  /** Milliseconds since 1970. */
  get now(): number {
    return (this.#passed.length + 0.5) * PERIOD + this.#turns * TURN_MS;
  }

  /** The deadline that is passed next. */
  get deadline(): number {
    return (this.#passed.length + 1) * PERIOD;
  }

  /** How long a record that slides lives behind a use: to the second deadline from then on. */
  readonly span: number = 1.75 * PERIOD;

  /** Where that ends if the use is now. */
  get slidingDeadline(): number {
    return this.deadline + PERIOD;
  }

  /** Passes the next deadline in this step of the run. */
  pass(at: number): void {
    this.#passed.push(at);
  }

  /** Lets the next turn of a sweep be due. */
  turn(): void {
    this.#turns++;
  }

  /** In which step a deadline was passed: infinity for never. */
  passedAt(deadline: number): number {
    return this.#passed[deadline / PERIOD - 1] ?? Number.POSITIVE_INFINITY;
  }

  /**
   * A client has found the record in this step; returns what to call when its use is noted, maybe
   * under a lock that it has waited for. That counts only if the record is still there then.
   */
  use(record: string, at: number): () => void {
    const use: Use = { at, deadline: this.slidingDeadline };
    const uses = [...(this.#uses.get(record) ?? []), use];
    this.#uses.set(record, uses);
    return () => {
      const isThere = uses.some(({ deadline }) => deadline > this.now);
      if (isThere) use.deadline = this.slidingDeadline;
    };
  }

  /** Until when a record may be there that expires at `deadline` if it is not used before. */
  lastDeadline(record: string, deadline: number, before: number): number {
    const uses = this.#uses.get(record)?.filter(({ at }) => at < before) ?? [];
    return Math.max(deadline, ...uses.map((use) => use.deadline));
  }
}
