import type { Store, Traffic } from '../../store/api.ts';

const NAMES = [
  'roundTrips',
  'reads',
  'writes',
  'compareAndSwaps',
  'fetchAndAdds',
  'bytesRead',
  'bytesWritten',
] as const satisfies readonly (keyof Traffic)[];

/**
 * The traffic of the operations between two readings. `stats()` walks the store, and its own verbs
 * may be in the counters; two calls with nothing between them tell how many, to be taken off.
 */
export class TrafficMeter {
  readonly #store: Pick<Store, 'stats'>;
  #base: Traffic;

  constructor(store: Pick<Store, 'stats'>) {
    this.#store = store;
    this.#base = combine(this.#store.stats().traffic, this.#store.stats().traffic, -1, 2);
  }

  /** What has happened since the last reading, or since the meter was made. */
  read(): Traffic {
    const now = this.#store.stats().traffic;
    const used = combine(now, this.#base, 1, -1);
    // The next call will begin at the second of these, plus what that call itself costs.
    this.#base = combine(now, this.#store.stats().traffic, -1, 2);
    return used;
  }
}

function combine(a: Traffic, b: Traffic, timesA: number, timesB: number): Traffic {
  return Object.fromEntries(
    NAMES.map((n) => [n, timesA * a[n] + timesB * b[n]]),
  ) as unknown as Traffic;
}

/** The sum of some readings, divided by a number of operations. */
export function perOperation(readings: readonly Traffic[], operations: number): Traffic {
  const total = (name: keyof Traffic) => readings.reduce((sum, reading) => sum + reading[name], 0);
  return Object.fromEntries(NAMES.map((n) => [n, total(n) / operations])) as unknown as Traffic;
}
