const INITIAL_CAPACITY = 1024;
/** Bounds of an event's fields, so that two 32-bit words hold all of them except the time. */
const KINDS_MAX = 16;
export const PARTS_MAX = 65_536;

/**
 * Events in order of time. Events of the same time come out in the order in which they were pushed,
 * so that a seed determines the run. A binary heap in typed arrays: no allocation per event.
 */
export class EventQueue {
  #times = new Float64Array(INITIAL_CAPACITY);
  #orders = new Float64Array(INITIAL_CAPACITY);
  /** Owner and kind; row and part. */
  #owners = new Int32Array(INITIAL_CAPACITY);
  #details = new Uint32Array(INITIAL_CAPACITY);
  #length = 0;
  #pushed = 0;
  /** The event that `pop` took last. */
  time = 0;
  kind = 0;
  owner = 0;
  row = 0;
  part = 0;

  get length(): number {
    return this.#length;
  }

  /** The time of the next event. */
  get nextTime(): number {
    return this.#length === 0 ? Number.POSITIVE_INFINITY : this.#times[0];
  }

  /** `row` and `part` are below PARTS_MAX, `kind` below KINDS_MAX. */
  push(time: number, kind: number, owner: number, row = 0, part = 0): void {
    if (this.#length === this.#times.length) this.#grow();
    const order = this.#pushed++;
    let hole = this.#length++;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      // Of two events of the same time, the one that was pushed later comes later.
      if (this.#times[parent] <= time) break;
      this.#move(parent, hole);
      hole = parent;
    }
    this.#put(hole, time, order, owner * KINDS_MAX + kind, row * PARTS_MAX + part);
  }

  /** Moves the earliest event into the fields; false when the queue is empty. */
  pop(): boolean {
    if (this.#length === 0) return false;
    this.time = this.#times[0];
    const owner = this.#owners[0];
    const detail = this.#details[0];
    this.kind = owner % KINDS_MAX;
    this.owner = (owner - this.kind) / KINDS_MAX;
    this.part = detail % PARTS_MAX;
    this.row = (detail - this.part) / PARTS_MAX;
    const last = --this.#length;
    if (last > 0) this.#sink(last);
    return true;
  }

  /** Moves the event at `last` to the root, then down to its position. */
  #sink(last: number): void {
    const times = this.#times;
    const orders = this.#orders;
    const time = times[last];
    const order = orders[last];
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= last) break;
      const right = child + 1;
      if (right < last) {
        const earlier = times[right] - times[child];
        if (earlier < 0 || (earlier === 0 && orders[right] < orders[child])) child = right;
      }
      const later = times[child] - time;
      if (later > 0 || (later === 0 && orders[child] > order)) break;
      this.#move(child, hole);
      hole = child;
    }
    this.#put(hole, time, order, this.#owners[last], this.#details[last]);
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#times[from], this.#orders[from], this.#owners[from], this.#details[from]);
  }

  #put(at: number, time: number, order: number, owner: number, detail: number): void {
    this.#times[at] = time;
    this.#orders[at] = order;
    this.#owners[at] = owner;
    this.#details[at] = detail;
  }

  #grow(): void {
    const capacity = 2 * this.#times.length;
    const times = new Float64Array(capacity);
    const orders = new Float64Array(capacity);
    const owners = new Int32Array(capacity);
    const details = new Uint32Array(capacity);
    times.set(this.#times);
    orders.set(this.#orders);
    owners.set(this.#owners);
    details.set(this.#details);
    this.#times = times;
    this.#orders = orders;
    this.#owners = owners;
    this.#details = details;
  }
}
