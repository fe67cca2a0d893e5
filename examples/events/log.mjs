// An ordered log in a store with order. Event n is written only when event n - 1 is there, so a
// reader that has seen n has missed none before it, whatever writers die.

/** A log in a store of the index `chime`. */
export class EventLog {
  #events;

  constructor(store) {
    this.#events = store.namespace('event:', { values: 'json' });
  }

  /** Returns the number of the event. */
  append(event) {
    let number = Number(this.#events.last()?.key ?? 0) + 1;
    while (!this.#events.insert(keyOf(number), event)) number++;
    return number;
  }

  /** The events behind a number, in their order. */
  *after(number, limit = Infinity) {
    for (const [key, event] of this.#events.scan({ gt: keyOf(number), limit })) {
      yield { number: Number(key), event };
    }
  }

  /** Forgets the events up to a number, except the last one of all. */
  trim(number) {
    const last = Number(this.#events.last()?.key ?? 0);
    this.#events.clear({ lte: keyOf(Math.min(number, last - 1)) });
  }
}

/** Numbers in the order of their bytes. */
function keyOf(number) {
  return String(number).padStart(16, '0');
}
