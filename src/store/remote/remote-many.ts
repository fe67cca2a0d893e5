import { ALWAYS } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { Batch } from '../../verbs/index.ts';
import type { Key, Value } from '../api.ts';
import type { FirstVersions } from '../calls/first-versions.ts';
import { checkEntry } from '../calls/many-keys.ts';
import type { Session } from './session.ts';

/** Keys that one operation searches for in doorbells that they share. */
const KEYS_PER_SEARCH = 64;
/** Operations of one call that are in flight together. */
const WIDTH = 128;

/** The batch calls of a store over the network: all of a call is in flight together. */
export class RemoteMany<V extends Value> {
  readonly #versions: FirstVersions;
  readonly #found: (request: Request, session: Session) => Promise<V>;
  /** Whether calls in flight on one key share verbs. */
  readonly #delegates: boolean;

  constructor(
    versions: FirstVersions,
    found: (request: Request, session: Session) => Promise<V>,
    delegates: boolean,
  ) {
    this.#versions = versions;
    this.#found = found;
    this.#delegates = delegates;
  }

  async get(session: Session, keys: readonly Key[], maxBytes: number): Promise<(V | undefined)[]> {
    const values: (V | undefined)[] = new Array(keys.length);
    // Values with a bound are counted in the order of their keys.
    const isBounded = maxBytes !== Number.POSITIVE_INFINITY;
    if (this.#delegates && !isBounded) {
      // Doorbells of their own would pass by the calls in flight that these searches can share.
      await inFlight([...keys.entries()], WIDTH, async ([i, key]) => {
        values[i] = await this.#getOne(session, key);
      });
      return values;
    }
    const starts = Array.from({ length: Math.ceil(keys.length / KEYS_PER_SEARCH) }, (_, i) => i);
    const width = isBounded ? 1 : WIDTH / 8;
    let bytes = 0;
    let end = keys.length;
    await inFlight(starts, width, async (start) => {
      const first = start * KEYS_PER_SEARCH;
      if (first >= end) return;
      const some = keys.slice(first, first + KEYS_PER_SEARCH);
      await this.#getSome(
        session,
        some,
        (i, valueBytes) => {
          bytes += valueBytes;
          if (bytes <= maxBytes || first + i === 0) return true;
          end = first + i;
          return false;
        },
        (i, value) => {
          values[first + i] = value;
        },
      );
    });
    values.length = end;
    return values;
  }

  #getOne(session: Session, key: Key): Promise<V | undefined> {
    const { index } = session;
    return session.perform(
      (request) => request.setKey(key, index.hashSeed),
      async (request) => {
        const found = await session.run(index.search(request));
        return found ? this.#found(request, session) : undefined;
      },
    );
  }

  /** Asks for every value whether it is wanted, by its length; ends with one that is not. */
  async #getSome(
    session: Session,
    keys: readonly Key[],
    wants: (i: number, valueBytes: number) => boolean,
    add: (i: number, value: V | undefined) => void,
  ): Promise<void> {
    const { index } = session;
    const requests = keys.map((key) => {
      const request = session.take();
      request.setKey(key, index.hashSeed);
      return request;
    });
    const found: boolean[] = [];
    await session.enter();
    try {
      await session.run(index.searchMany(requests, keys.length, new Batch(), found));
      for (let i = 0; i < keys.length; i++) {
        if (!wants(i, found[i] ? requests[i].foundValueBytes : 0)) break;
        add(i, found[i] ? await this.#found(requests[i], session) : undefined);
      }
    } finally {
      session.pool.exit();
      for (const request of requests) session.give(request);
    }
  }

  async delete(session: Session, keys: readonly Key[]): Promise<number> {
    let removed = 0;
    await inFlight(keys, WIDTH, async (key) => {
      const was = await session.retry(
        () =>
          session.perform(
            (request) => request.setKey(key, session.index.hashSeed),
            (request) => session.run(session.index.remove(request)),
          ),
        'deletion',
      );
      if (was) removed++;
    });
    return removed;
  }

  async put(session: Session, entries: Iterable<readonly [Key, Value]>): Promise<void> {
    const round = new Map<string, readonly [Key, Value]>();
    for (const entry of entries) {
      checkEntry(entry);
      const name = nameOf(entry[0]);
      // Operations in flight have no order: a key that comes again waits for those before it.
      if (round.size === WIDTH || round.has(name)) await this.#putRound(session, round);
      round.set(name, entry);
    }
    await this.#putRound(session, round);
  }

  async #putRound(session: Session, round: Map<string, readonly [Key, Value]>): Promise<void> {
    const entries = [...round.values()];
    round.clear();
    await inFlight(entries, WIDTH, async ([key, value]) => {
      const { index } = session;
      await session.retry(() =>
        session.perform(
          (request) => {
            const version = this.#versions.next();
            index.records.encode(request, key, value, index.hashSeed, version);
          },
          (request) => session.run(index.write(request, ALWAYS)),
        ),
      );
    });
  }
}

/** Two keys are the same when their bytes are. What is no key at all is refused later. */
function nameOf(key: Key): string {
  return typeof key === 'string' ? Buffer.from(key).toString('latin1') : latin1(key);
}

function latin1(key: Uint8Array): string {
  if (!(key instanceof Uint8Array)) return '';
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
}

/**
 * Does something with every item, so many at a time. When one fails no more are begun, and the
 * first error is raised when those in flight have ended.
 */
async function inFlight<T>(
  items: readonly T[],
  width: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failure: { error: unknown } | undefined;
  const lane = async () => {
    while (next < items.length && failure === undefined) {
      try {
        await act(items[next++]);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  if (failure) throw failure.error;
}
