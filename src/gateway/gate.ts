import type { Operation } from '../verbs/index.ts';

/** What a connection does next, as far as a gate is concerned. */
export interface Arrival {
  /** Whether no command of another client may run meanwhile. */
  readonly runsAlone: boolean;
}

/** Where commands of all connections wait for one another. */
export interface Gate {
  /** Begins a command, or a part of one; each has its `exit`. */
  enter(arrival: Arrival): Operation<void>;
  exit(): void;
}

/** Where verbs finish at once: a command has ended before another one begins. */
export class OpenGate implements Gate {
  *enter(): Operation<void> {}

  exit(): void {}
}
