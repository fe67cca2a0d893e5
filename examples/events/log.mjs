// A log in an ordered store. Event n is written only after event n - 1. So a reader that has seen n
// has missed no earlier event, even if writers die.

/** A log in a store of the index `chime`. */
export class EventLog {
  #events;

  constructor(store) {
    this.#events = store.namespace('event:', { values: 'json' });
  }

  /** Returns the number of the event. */
  append(event) {
    let number = Number(this.#events.last()?.[0] ?? 0) + 1;
    while (!this.#events.insert(keyOf(number), event)) number++;
    return number;
  }

  /** The events after a number, in order. */
  *after(number, limit = Infinity) {
    for (const [key, event] of this.#events.scan({ gt: keyOf(number), limit })) {
      yield { number: Number(key), event };
    }
  }

  /** Deletes the events up to a number, but always keeps the latest event, which has the count. */
  trim(number) {
    const last = Number(this.#events.last()?.[0] ?? 0);
    this.#events.clear({ lte: keyOf(Math.min(number, last - 1)) });
  }
}

/** Padded, so that the order of the bytes is the order of the numbers. */
function keyOf(number) {
  return String(number).padStart(16, '0');
}
