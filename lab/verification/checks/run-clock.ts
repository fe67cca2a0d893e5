/** Milliseconds from one deadline of a run to the next. */
const PERIOD = 1_000_000;
/** How far the clock advances to make a sweep's next step due: see expiry-sweep.ts. */
const TURN_MS = 100;

/** A use of a record with sliding expiry: the record may live until `deadline`. */
interface Use {
  at: number;
  deadline: number;
}

/**
 * The wall clock of a run, shared by all its clients. It advances in jumps, each past the next
 * deadline of records, and in small steps that pass no deadline.
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

  /** Lifetime of a record with sliding expiry after a use: it outlives one deadline, not two. */
  readonly span: number = 1.75 * PERIOD;

  /** When such a record expires if it is used now. */
  get slidingDeadline(): number {
    return this.deadline + PERIOD;
  }

  /** Passes the next deadline in this step of the run. */
  pass(at: number): void {
    this.#passed.push(at);
  }

  /** Makes the next step of a sweep due. */
  turn(): void {
    this.#turns++;
  }

  /** The step of the run in which a deadline was passed; Infinity if it was not. */
  passedAt(deadline: number): number {
    return this.#passed[deadline / PERIOD - 1] ?? Number.POSITIVE_INFINITY;
  }

  /**
   * A client has found the record in step `at`. Returns a function to call when the client notes
   * the use, perhaps later, under a lock. It extends the expiry only if the record is still alive.
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

  /** When a record expires at the latest: `deadline`, or later by uses before step `before`. */
  lastDeadline(record: string, deadline: number, before: number): number {
    const uses = this.#uses.get(record)?.filter(({ at }) => at < before) ?? [];
    return Math.max(deadline, ...uses.map((use) => use.deadline));
  }
}
