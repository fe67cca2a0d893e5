import {
  type Index,
  type IndexScan,
  type IndexWalk,
  isOrdered,
  type KeyRange,
} from '../../../src/indexes/contract.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { walkOf } from '../../../src/indexes/traversal/walk.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import { CallRecord, foundState, type KeyState } from '../checks/history.ts';
import type { Sight } from '../checks/snapshots.ts';
import type { CallLog } from './caller.ts';

/** A walk, or a scan of an ordered index, which has several leaves in a doorbell. */
export type WalkOrder = 'any' | 'forward' | 'reverse';

/** How a client goes through the records. */
export interface WalkForm {
  order: WalkOrder;
  /** A scan's limit of records, and its first key. */
  limit: number | undefined;
  first: string | undefined;
}

/** The step of a walk that returned a key. */
interface Sighting {
  from: number;
  to: number;
}

/**
 * Translates a walk into searches, so that the history of each key judges it. A record that a step
 * hands out is a search in that step that found it. A key that the walk did not hand out is a
 * search during the walk that missed, because a walk meets a key that is present throughout. Where
 * it meets such a key exactly once, a key that it met twice was absent at a moment in between. A
 * scan tells this only of the keys that it has passed: from where it began to where its limit ended
 * it.
 */
export class Walker {
  readonly #name: string;
  readonly #log: CallLog;
  readonly #walk: IndexWalk | IndexScan;
  readonly #index: Index;
  readonly #began: number;
  readonly #form: WalkForm;
  #met = 0;
  /** The last key that a scan returned. */
  #last: Uint8Array | undefined;
  /** Whether the walk finds a key that is present throughout exactly once. */
  readonly #once: boolean;
  readonly #sightings = new Map<number, Sighting>();
  /** When the step that is in flight began; undefined between steps. */
  since: number | undefined;

  constructor(
    name: string,
    index: Index,
    log: CallLog,
    { once, form }: { once: boolean; form: WalkForm },
  ) {
    this.#name = name;
    this.#index = index;
    this.#once = once;
    this.#log = log;
    this.#form = isOrdered(index) ? form : { order: 'any', limit: undefined, first: undefined };
    this.#walk =
      isOrdered(index) && form.order !== 'any' ? index.scan(rangeOf(form)) : walkOf(index);
    this.#began = log.now();
  }

  get done(): boolean {
    return this.#walk.done;
  }

  /** One group of buckets: an operation of its own, as in the store. */
  *step(): Operation<void> {
    const from = this.#log.now();
    this.since = from;
    const met: Sight[] = [];
    yield* this.#walk.next((request, keyBytes) => met.push(this.#read(request, keyBytes)));
    const to = this.#log.now();
    for (const { key, found } of met) this.#meet(key, found, { from, to });
    if (this.#form.order !== 'any') this.#log.snapshot?.(met);
    if (this.done) this.#missTheRest(to);
    this.since = undefined;
  }

  #read(request: Request, keyBytes: number): Sight {
    const bytes = request.outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes);
    const name = Buffer.from(bytes).toString();
    this.#checkOrder(bytes);
    const key = this.#log.keys.indexOf(name);
    if (key < 0) throw new Error(`a walk hands out ${name}, a key that was never there`);
    return { key, found: this.#index.records.isExpired(request) ? undefined : foundState(request) };
  }

  #checkOrder(bytes: Uint8Array): void {
    const { order, first } = this.#form;
    if (order === 'any') return;
    const step = order === 'reverse' ? -1 : 1;
    const isOutside = first !== undefined && Buffer.compare(bytes, Buffer.from(first)) === -step;
    if (isOutside) throw new Error('a scan hands out a key outside of its range');
    const isBehind = this.#last === undefined || Buffer.compare(bytes, this.#last) === step;
    if (!isBehind) throw new Error('a scan hands out keys out of order');
    this.#last = bytes.slice();
  }

  #meet(key: number, found: KeyState, sighting: Sighting): void {
    this.#met++;
    const earlier = this.#sightings.get(key);
    if (earlier && this.#once) this.#search(key, undefined, earlier.from, sighting.to);
    this.#sightings.set(key, sighting);
    this.#search(key, found, sighting.from, sighting.to);
  }

  #missTheRest(to: number): void {
    this.#log.keys.forEach((name, key) => {
      const missed = !this.#sightings.has(key) && this.#hasPassed(Buffer.from(name));
      if (missed) this.#search(key, undefined, this.#began, to);
    });
  }

  #hasPassed(name: Buffer): boolean {
    const { order, limit, first } = this.#form;
    if (order === 'any') return true;
    const step = order === 'reverse' ? -1 : 1;
    if (first !== undefined && Buffer.compare(name, Buffer.from(first)) === -step) return false;
    // A scan that reached its limit says nothing about keys behind its last one.
    const isFull = limit !== undefined && this.#met >= limit;
    return !isFull || Buffer.compare(name, this.#last as Uint8Array) === -step;
  }

  #search(key: number, found: KeyState, from: number, to: number): void {
    const call = { key, kind: 'search' as const, by: 'walk' as const };
    this.#log.record(CallRecord.seen(this.#name, call, found, from, to, this.#log.clock));
  }
}

function rangeOf({ order, limit, first }: WalkForm): KeyRange {
  const bound = first === undefined ? undefined : { key: Buffer.from(first), inclusive: true };
  if (order === 'reverse') return { upper: bound, limit, reverse: true };
  return { lower: bound, limit };
}
