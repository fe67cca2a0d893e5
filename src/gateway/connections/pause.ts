/** The part of a command that decides whether a pause holds it back. */
interface Held {
  readonly name: string;
  readonly flags: readonly string[];
}

/** CLIENT PAUSE: holds back all commands, or those that write. */
export class Pause {
  #until = 0;
  #mode: 'all' | 'write' = 'all';
  #timer: NodeJS.Timeout | undefined;
  readonly #waiting = new Set<() => void>();

  get isOn(): boolean {
    return this.#timer !== undefined;
  }

  /** Never shortens or weakens a pause that is on. */
  begin(ms: number, mode: 'all' | 'write'): void {
    const until = Date.now() + ms;
    if (!this.isOn || mode === 'all') this.#mode = mode;
    this.#until = Math.max(this.#until, until);
    clearTimeout(this.#timer);
    this.#wait();
  }

  #wait(): void {
    // The longest delay of a timer.
    const ms = Math.min(Math.max(0, this.#until - Date.now()), 2 ** 31 - 1);
    this.#timer = setTimeout(() => (Date.now() < this.#until ? this.#wait() : this.end()), ms);
    this.#timer.unref();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#until = 0;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    // Not at once: no other client's commands may run inside an EXEC that ends the pause.
    for (const resume of waiting) setImmediate(resume);
  }

  /** Whether a command has to wait; `execWrites` says whether EXEC would write. */
  holds(command: Held | undefined, execWrites: boolean): boolean {
    if (!this.isOn) return false;
    if (this.#mode === 'all' || command === undefined) return this.#mode === 'all';
    if (command.name === 'exec') return execWrites;
    return command.flags.includes('write') || command.name === 'publish';
  }

  wait(resume: () => void): void {
    this.#waiting.add(resume);
  }

  forget(resume: () => void): void {
    this.#waiting.delete(resume);
  }
}
