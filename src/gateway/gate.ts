import type { Operation } from '../verbs/index.ts';

/** What a connection does next, as far as a gate is concerned. */
export interface Arrival {
  /** Whether no command of another client may run meanwhile. */
  readonly runsAlone: boolean;
  /** Operations of the store that it has in flight together, at most. */
  readonly operations: number;
}

/** Where commands of all connections wait for one another. */
export interface Gate {
  /** Begins a command, or a part of one; each has its `exit`, which takes what this returns. */
  enter(arrival: Arrival): Operation<number>;
  exit(operations: number): void;
}

/** Where verbs finish at once: a command has ended before another one begins. */
export class OpenGate implements Gate {
  // biome-ignore lint/correctness/useYield: other gates wait
  *enter(): Operation<number> {
    return 0;
  }

  exit(): void {}
}
