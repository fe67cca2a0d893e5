import type { Index } from '../../src/indexes/contract.ts';
import { createStore } from '../../src/indexes/kinds.ts';
import type { RaceShape } from '../../src/indexes/race/geometry.ts';
import { openRace, RACE, type RaceIndex } from '../../src/indexes/race/race.ts';
import type { CatalogEntry } from '../../src/pool/catalog.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import type { Operation } from '../../src/verbs/index.ts';

/** The members of an index that run in virtual time. */
export type TimedIndex = Pick<Index, 'records' | 'newRequest' | 'search' | 'write' | 'remove'>;

/** How an experiment creates and opens its index. */
export interface IndexKind<I extends TimedIndex = TimedIndex> {
  create(pool: LocalPool): Operation<CatalogEntry>;
  open(pool: LocalPool, entry: CatalogEntry): Operation<I>;
}

const STORE = 'simulated';

export function raceKind(shape: RaceShape): IndexKind<RaceIndex> {
  return {
    create: (pool) => createStore(pool, STORE, RACE, { ...shape }),
    open: (pool, { id, root }) => openRace(pool, shape, id, root),
  };
}

/** The same kind, with a test double in place of the opened index. */
export function doubled<I extends TimedIndex>(
  kind: IndexKind<I>,
  double: (index: I, pool: LocalPool, entry: CatalogEntry) => TimedIndex,
): IndexKind {
  return {
    create: (pool) => kind.create(pool),
    *open(pool, entry) {
      return double(yield* kind.open(pool, entry), pool, entry);
    },
  };
}
