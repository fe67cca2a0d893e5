type Step = () => void | Promise<void>;

/**
 * Undoes what a program has set up, in reverse order, also when a signal ends it. Shared memory,
 * servers and directories would otherwise outlive the process that made them.
 */
export class Cleanup {
  readonly #steps: Step[] = [];
  #interrupted = false;
  readonly #onSignal = (signal: NodeJS.Signals) => {
    this.#interrupted = true;
    void this.run().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143));
  };

  constructor() {
    process.once('SIGINT', this.#onSignal);
    process.once('SIGTERM', this.#onSignal);
  }

  /** A signal has ended the program: later failures are consequences of that. */
  get interrupted(): boolean {
    return this.#interrupted;
  }

  add(step: Step): void {
    this.#steps.push(step);
  }

  async run(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        // One failure must not keep the other steps from running.
        console.error(`while cleaning up: ${(error as Error).message}`);
      }
    }
    process.off('SIGINT', this.#onSignal);
    process.off('SIGTERM', this.#onSignal);
  }
}
