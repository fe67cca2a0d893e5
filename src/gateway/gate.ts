import type { Operation } from '../verbs/index.ts';

/** The next step of a connection. */
export interface Arrival {
  /** Whether no command of another client may run at the same time. */
  readonly runsAlone: boolean;
  /** Most operations of the store that it has in flight at a time. */
  readonly operations: number;
}

/**
 * Where commands of all connections wait for one another. Both ways in return what `exit` takes.
 */
export interface Gate {
  /** Begins a step; undefined if it has to wait. */
  tryEnter(arrival: Arrival): number | undefined;
  /** Waits, and begins the step. */
  enter(arrival: Arrival): Operation<number>;
  exit(operations: number): void;
}

/** For pools whose verbs finish at once: each command ends before another one begins. */
export class OpenGate implements Gate {
  tryEnter(): number {
    return 0;
  }

  // biome-ignore lint/correctness/useYield: other gates wait
  *enter(): Operation<number> {
    return 0;
  }

  exit(): void {}
}
