import { hasCode } from '../../errors.ts';
import type { Index, IndexWalk } from '../../indexes/contract.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Attachment } from './attachment.ts';
import { foundKey } from './ranges/takers.ts';

/** Between two turns at a store, of whatever client. */
export const TURN_MS = 100;
/** As long as a turn finds at least this share of the records that it visits expired. */
const BUSY_TURN_MS = 10;
const BUSY_SHARE = 0.1;
/** In a store without records that expire: how soon the first one is noticed. */
const IDLE_MS = 1000;
/** Steps of the walk in one turn: some hundred records, less than a millisecond. */
const STEPS = 16;

/** A record that had expired when a walk met it. */
interface Expired {
  readonly key: Uint8Array;
  readonly version: number;
}

/**
 * Takes expired records out of a store, so that their memory comes back although no client asks for
 * their keys. The clients of the store take turns: a word in the pool says when the last turn was,
 * another one where it ended. A client that dies in its turn leaves the same records to the next.
 * In a store without records that expire a turn is one READ.
 */
export class ExpirySweep {
  readonly #attachment: Attachment;
  readonly #index: Index;
  #isBusy = false;
  #isTimed = false;

  constructor(attachment: Attachment, index: Index) {
    this.#attachment = attachment;
    this.#index = index;
  }

  /** When the next turn may be due, in milliseconds. */
  get pause(): number {
    if (!this.#isTimed) return IDLE_MS;
    return this.#isBusy ? BUSY_TURN_MS : TURN_MS;
  }

  /** A turn, if one is due; returns how many records it took out. */
  *turn(): Operation<number> {
    const { catalog, clock } = this.#attachment.pool;
    const id = this.#index.catalog;
    yield* this.#attachment.enter();
    try {
      this.#isTimed ||= yield* catalog.isTimed(id);
      if (!this.#isTimed) return 0;
      if (!(yield* catalog.takeTurn(id, clock.now(), this.pause))) return 0;
      const walk = this.#walkFrom(yield* catalog.turnCursor(id));
      const removed = yield* this.#steps(walk);
      yield* catalog.setTurnCursor(id, walk.cursor);
      return removed;
    } finally {
      this.#attachment.exit();
    }
  }

  /** All records, for a client that needs their memory now. */
  *all(): Operation<number> {
    if (!(yield* this.#attachment.pool.catalog.isTimed(this.#index.catalog))) return 0;
    const walk = this.#index.walk();
    let removed = 0;
    while (!walk.done) {
      yield* this.#attachment.enter();
      try {
        removed += yield* this.#steps(walk);
      } finally {
        this.#attachment.exit();
      }
    }
    return removed;
  }

  /** From the beginning when the place is none of this store. */
  #walkFrom(cursor: number): IndexWalk {
    try {
      return this.#index.walk(cursor);
    } catch (error) {
      if (hasCode(error, 'SW_INVALID_ARGUMENT')) return this.#index.walk();
      throw error;
    }
  }

  *#steps(walk: IndexWalk): Operation<number> {
    const { records } = this.#index;
    const expired: Expired[] = [];
    let visited = 0;
    for (let step = 0; step < STEPS && !walk.done; step++) {
      yield* walk.next((request, keyBytes) => {
        visited++;
        if (!records.isExpired(request)) return;
        expired.push({ key: foundKey(request, keyBytes), version: request.foundVersion });
      }, true);
    }
    for (const record of expired) yield* this.#remove(record);
    this.#isBusy = expired.length >= Math.max(1, BUSY_SHARE * visited);
    return expired.length;
  }

  /** Unless another record has taken its place. */
  *#remove({ key, version }: Expired): Operation<void> {
    const request = this.#index.newRequest();
    request.setKey(key, this.#index.hashSeed);
    yield* this.#index.remove(request, version);
  }
}
