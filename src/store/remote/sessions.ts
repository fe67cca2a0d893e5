import { publish, ResizeNews } from '../../diagnostics.ts';
import { ExpirySweep, runTurns } from '../calls/expiry-sweep.ts';
import { Evictor } from '../eviction/evictor.ts';
import type { Session } from './session.ts';
import type { SessionOpener } from './session-opener.ts';

/** Where the calls of a handle find their session. */
export interface SessionSource {
  readonly current: Session;
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  /** Opens a new session when the last one is over. */
  live(): Promise<void>;
  close(): Promise<void>;
}

/** One session after the other of a store, for its handle and for the namespaces in it. */
export class Sessions implements SessionSource {
  readonly #opener: SessionOpener;
  readonly #name: string;
  #current: Session;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(opener: SessionOpener, session: Session, name: string, readOnly: boolean) {
    this.#name = name;
    this.#opener = opener;
    this.#current = session;
    if (!readOnly) this.#sweepExpired();
  }

  get current(): Session {
    return this.#current;
  }

  /** The handle refuses by itself. */
  refuseClosed(): void {}

  /**
   * Opens a new session when the last one is over: calls that were under way have failed with it,
   * later ones go on under a new incarnation.
   */
  async live(): Promise<void> {
    if (!this.#current.over) return;
    this.#opening ??= this.#reopen().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async #reopen(): Promise<void> {
    const session = await this.#opener.open(this.#current);
    if (this.#closed) await session.close();
    else this.#current = session;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#current.close();
  }

  /** Takes expired records out as long as the store is open; not while it has no session. */
  #sweepExpired(): void {
    let of = this.#current;
    let sweep = sweepOf(of, this.#name);
    let resizes = new ResizeNews(this.#name, of.index);
    runTurns(sweep.pause, async () => {
      const session = this.#current;
      if (this.#closed || session.dropped) return undefined;
      if (session !== of) {
        sweep = sweepOf(session, this.#name);
        resizes = new ResizeNews(this.#name, session.index);
      }
      of = session;
      if (session.over) return sweep.pause;
      const records = await session.pool.run(sweep.turn());
      if (records > 0) publish('expire', () => ({ store: this.#name, records }));
      resizes.look();
      return sweep.pause;
    });
  }
}

/** Those of a store, for a namespace in it. Its `close` ends nothing. */
export class SessionsOfView implements SessionSource {
  readonly #source: SessionSource;
  readonly refuseClosed: () => void;
  readonly close: () => Promise<void>;

  /** `close` is left out where closing the view does not close the store. */
  constructor(
    source: SessionSource,
    refuseClosed: () => void,
    close = async (): Promise<void> => {},
  ) {
    this.#source = source;
    this.refuseClosed = refuseClosed;
    this.close = close;
  }

  get current(): Session {
    return this.#source.current;
  }

  live(): Promise<void> {
    return this.#source.live();
  }
}

function sweepOf(session: Session, name: string): ExpirySweep {
  const { index, bounded } = session;
  const evictor = bounded && new Evictor(bounded, index, session, name);
  return new ExpirySweep(session, index, evictor);
}
