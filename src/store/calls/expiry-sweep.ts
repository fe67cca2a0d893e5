import { publish, ResizeNews } from '../../diagnostics.ts';
import { hasCode } from '../../errors.ts';
import { type Index, type IndexWalk, resizesOf } from '../../indexes/contract.ts';
import { walkOf } from '../../indexes/traversal/walk.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { Evictor } from '../eviction/evictor.ts';
import { foundKey } from './result-builders.ts';

/** Time between two turns at a store, of any clients. */
export const TURN_MS = 100;
/** The same while at least this share of the records that a turn visits has expired. */
const BUSY_TURN_MS = 10;
const BUSY_SHARE = 0.1;
/** In a store without records that expire: how soon the first one is noticed. */
export const IDLE_MS = 1000;
/** After a turn that failed. */
const FAILED_PAUSE_MS = 1000;
/** Steps of the walk in one turn: some hundred records, less than a millisecond. */
const STEPS = 16;

/** Attempts in a full pool; before each but the first, room is made. */
const REMOVALS_MAX = 4;

/** The parts of a store's handle that a sweep needs. */
type Sections = Pick<Attachment, 'pool' | 'enter' | 'exit'>;

/** A record that had expired when a walk met it. */
interface Expired {
  readonly key: Uint8Array;
  readonly version: number;
}

/** 'kept': the record was replaced meanwhile; 'held': another client holds a lock there. */
type Removal = 'removed' | 'kept' | 'held';

/**
 * Removes expired records from a store, so that their memory can be reused even if no client asks
 * for their keys. The clients of the store take turns: one word in the pool says when the last turn
 * was, another where it ended. If a client dies in its turn, the next turn finds the same records.
 * In a store without records that expire a turn is one READ.
 */
export class ExpirySweep {
  readonly #attachment: Sections;
  readonly #index: Index;
  /** Undefined for a store without a bound. */
  readonly #evictor: Evictor | undefined;
  #isBusy = false;
  #areMostExpired = false;
  #isTimed = false;

  constructor(attachment: Sections, index: Index, evictor?: Evictor) {
    this.#evictor = evictor;
    this.#attachment = attachment;
    this.#index = index;
  }

  /** When the next turn may be due, in milliseconds. */
  get pause(): number {
    if (!this.#isTimed) return IDLE_MS;
    return this.#isBusy ? BUSY_TURN_MS : TURN_MS;
  }

  /** Whether most records that the last steps met had expired. */
  get areMostExpired(): boolean {
    return this.#areMostExpired;
  }

  /**
   * Has `run` run a turn again and again, until it returns undefined. The timers do not keep the
   * process alive. A failure is ignored: the store's calls meet the same trouble, and raise it.
   */
  repeat(store: string, run: () => Promise<number | undefined> | number | undefined): void {
    const resizes = new ResizeNews(store, () => resizesOf(this.#index));
    const wait = (pause: number) => setTimeout(runTurn, pause).unref();
    const runTurn = async () => {
      try {
        const records = await run();
        if (records === undefined) return;
        if (records > 0) publish('expire', () => ({ store, records }));
        resizes.look();
        wait(this.pause);
      } catch {
        wait(FAILED_PAUSE_MS);
      }
    };
    wait(this.pause);
  }

  /** Takes a turn, if one is due; returns how many records it removed. */
  *turn(): Operation<number> {
    const { catalog } = this.#attachment.pool;
    const id = this.#index.records.catalog;
    yield* this.#tell();
    // In a section, as every verb on the store's words: outside of one they may be another store's.
    const start = yield* inSection(this.#attachment, () => this.#begin());
    if (start === undefined) return 0;
    const walk = this.#walkFrom(start);
    const expired = yield* inSection(this.#attachment, () => this.#meet(walk));
    let removed = 0;
    for (const record of expired) {
      const outcome = yield* inSection(this.#attachment, () => this.#removeUnheld(record));
      if (outcome === 'held') break;
      if (outcome === 'removed') removed++;
    }
    yield* this.#tell();
    yield* inSection(this.#attachment, () => catalog.setTurnCursor(id, walk.cursor));
    return removed;
  }

  /** Where the turn that is due begins; undefined when none is. */
  *#begin(): Operation<number | undefined> {
    const { catalog, clock } = this.#attachment.pool;
    const id = this.#index.records.catalog;
    this.#isTimed ||= yield* catalog.isTimed(id);
    if (!this.#isTimed) return undefined;
    if (!(yield* catalog.takeTurn(id, clock.now(), this.pause))) return undefined;
    return yield* catalog.turnCursor(id);
  }

  /**
   * Removes at least `enough` expired records, or all of them, for a client that needs memory now.
   * `makeRoom` is for an index that needs memory to remove a record.
   */
  *removeSome(enough: number, makeRoom: () => Operation<boolean>): Operation<number> {
    const { catalog } = this.#attachment.pool;
    const id = this.#index.records.catalog;
    if (!(yield* inSection(this.#attachment, () => catalog.isTimed(id)))) return 0;
    let removed = 0;
    // Walks from where the last turn ended, then once more from the beginning.
    for (const start of [yield* inSection(this.#attachment, () => catalog.turnCursor(id)), 0]) {
      if (removed >= enough) break;
      const walk = this.#walkFrom(start);
      while (!walk.done && removed < enough) {
        for (const record of yield* inSection(this.#attachment, () => this.#meet(walk))) {
          const outcome = yield* this.#removeInFull(record, makeRoom);
          if (outcome === 'no room') return removed;
          if (outcome === 'held') break;
          if (outcome === 'removed') removed++;
        }
      }
      yield* inSection(this.#attachment, () => catalog.setTurnCursor(id, walk.cursor));
    }
    yield* this.#tell();
    return removed;
  }

  /**
   * Publishes what this client of a bounded store has counted since: hits, misses and removals.
   * Then a full store without eviction accepts keys again.
   */
  *#tell(): Operation<void> {
    const evictor = this.#evictor;
    if (evictor?.store.ledger.isUnpublished) yield* evictor.publish();
  }

  *#removeInFull(
    record: Expired,
    makeRoom: () => Operation<boolean>,
  ): Operation<Removal | 'no room'> {
    for (let attempt = 0; attempt < REMOVALS_MAX; attempt++) {
      try {
        return yield* inSection(this.#attachment, () => this.#removeUnheld(record));
      } catch (error) {
        if (!hasCode(error, 'SW_POOL_FULL') || !(yield* makeRoom())) break;
      }
    }
    return 'no room';
  }

  /** Begins at the cursor, or at the beginning if it is not a cursor of this store. */
  #walkFrom(cursor: number): IndexWalk {
    try {
      return walkOf(this.#index, cursor);
    } catch (error) {
      if (hasCode(error, 'SW_INVALID_ARGUMENT')) return walkOf(this.#index);
      throw error;
    }
  }

  /** The expired records that the next steps of the walk find. */
  *#meet(walk: IndexWalk): Operation<Expired[]> {
    const { records } = this.#index;
    const expired: Expired[] = [];
    let visited = 0;
    for (let step = 0; step < STEPS && !walk.done; step++) {
      yield* walk.next((request, keyBytes) => {
        visited++;
        if (!records.isExpired(request)) return;
        expired.push({ key: foundKey(request, keyBytes), version: request.found.version });
      }, true);
    }
    this.#isBusy = expired.length >= Math.max(1, BUSY_SHARE * visited);
    this.#areMostExpired = 2 * expired.length > visited;
    return expired;
  }

  /**
   * A client that has stopped with a lock keeps records near it from being removed, but no others.
   */
  *#removeUnheld(record: Expired): Operation<Removal> {
    try {
      return (yield* this.#remove(record)) ? 'removed' : 'kept';
    } catch (error) {
      if (hasCode(error, 'SW_CONTENTION')) return 'held';
      throw error;
    }
  }

  /** Removes the record unless it was replaced meanwhile; returns whether it did. */
  *#remove({ key, version }: Expired): Operation<boolean> {
    const request = this.#index.newRequest();
    request.setKey(key, this.#index.records.seed);
    yield* this.#index.remove(request, version);
    this.#evictor?.removed(request);
    return request.displaced;
  }
}
