/** Counts events by interval of virtual time. */
export class Timeline {
  readonly intervalNs: number;
  readonly #start: number;
  readonly #counts: number[] = [];

  constructor(intervalNs: number, start = 0) {
    this.intervalNs = intervalNs;
    this.#start = start;
  }

  record(now: number): void {
    const interval = Math.floor((now - this.#start) / this.intervalNs);
    while (this.#counts.length <= interval) this.#counts.push(0);
    this.#counts[interval]++;
  }

  /** By interval: events per second. */
  rates(): number[] {
    return this.#counts.map((count) => (count * 1e9) / this.intervalNs);
  }
}
