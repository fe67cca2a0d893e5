import { type Channel, channel } from 'node:diagnostics_channel';

/**
 * Rare events, for subscribers of `diagnostics_channel`. Without a subscriber an event costs one
 * look at a flag. A channel's name and the fields of its messages stay.
 */
const CHANNELS = {
  /** A store was opened: { url, store }. */
  open: channel('stepwell:open'),
  /** A store was closed: { url, store }. */
  close: channel('stepwell:close'),
  /** This client found another one dead, and cleans up after it: { pool, client, name, pid }. */
  death: channel('stepwell:death'),
  /** It has done so: { pool, client, name, pid }. */
  recovery: channel('stepwell:recovery'),
  /** A call raises SW_POOL_FULL: { store, write }, where `write` is 'write' or 'deletion'. */
  full: channel('stepwell:full'),
  /** A full pool was swept: { store, brought }. */
  sweep: channel('stepwell:sweep'),
  /** Expired records were taken out: { store, records }. */
  expire: channel('stepwell:expire'),
  /** A full bounded store let a record go: { store, expired }, whether that had expired. */
  eviction: channel('stepwell:eviction'),
  /** The client let an index grow, or grow shorter: { store, resizes }, by what it did. */
  resize: channel('stepwell:resize'),
} satisfies Record<string, Channel>;

export type EventName = keyof typeof CHANNELS;

/** Tells subscribers; `message` is made only if there are any. */
export function publish(name: EventName, message: () => object): void {
  const { [name]: told } = CHANNELS;
  if (told.hasSubscribers) told.publish(message());
}

export function isHeard(name: EventName): boolean {
  return CHANNELS[name].hasSubscribers;
}

/** Publishes what was added to counters since the last look, as long as there are subscribers. */
export class ResizeNews {
  readonly #store: string;
  readonly #resizes: () => Readonly<Record<string, number>>;
  #before: Readonly<Record<string, number>>;

  constructor(store: string, resizes: () => Readonly<Record<string, number>>) {
    this.#store = store;
    this.#resizes = resizes;
    this.#before = resizes();
  }

  look(): void {
    if (!isHeard('resize')) return;
    const counters = this.#resizes();
    const resizes: Record<string, number> = {};
    for (const [what, count] of Object.entries(counters)) {
      const more = count - (this.#before[what] ?? 0);
      if (more !== 0) resizes[what] = more;
    }
    if (Object.keys(resizes).length === 0) return;
    this.#before = counters;
    publish('resize', () => ({ store: this.#store, resizes }));
  }
}
