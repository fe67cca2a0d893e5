import type { Store, Traffic } from '../../src/store/api.ts';

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
 * The traffic of the operations between two readings. `stats()` walks the store with verbs of its
 * own, so the meter measures what a call of it costs and subtracts that. It takes the smaller of
 * two costs, because a call occasionally includes the client's housekeeping. A reading may be
 * slightly too high, never too low.
 */
export class TrafficMeter {
  readonly #store: Pick<Store, 'stats'>;
  #base: Traffic;

  constructor(store: Pick<Store, 'stats'>) {
    this.#store = store;
    this.#base = this.#expected();
  }

  /** The traffic since the last reading, or since the meter was made. */
  read(): Traffic {
    const used = combine(this.#now(), this.#base, (now, base) => now - base);
    this.#base = this.#expected();
    return used;
  }

  /** What the next `stats()` will report if no operation runs before it. */
  #expected(): Traffic {
    const [first, second, third] = [this.#now(), this.#now(), this.#now()];
    const costs = [
      combine(second, first, (a, b) => a - b),
      combine(third, second, (a, b) => a - b),
    ];
    const cost = costs[0].roundTrips <= costs[1].roundTrips ? costs[0] : costs[1];
    return combine(third, cost, (a, b) => a + b);
  }

  #now(): Traffic {
    return this.#store.stats().traffic;
  }
}

function combine(a: Traffic, b: Traffic, by: (a: number, b: number) => number): Traffic {
  return Object.fromEntries(NAMES.map((n) => [n, by(a[n], b[n])])) as unknown as Traffic;
}

/** The sum of some readings, divided by a number of operations. */
export function perOperation(readings: readonly Traffic[], operations: number): Traffic {
  const total = (name: keyof Traffic) => readings.reduce((sum, reading) => sum + reading[name], 0);
  return Object.fromEntries(NAMES.map((n) => [n, total(n) / operations])) as unknown as Traffic;
}
