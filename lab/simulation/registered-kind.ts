import type { Index } from '../../src/indexes/contract.ts';
import { createStore, kindNamed, openIndex } from '../../src/indexes/kinds.ts';
import type { IndexKind } from './index-kind.ts';

const STORE = 'simulated';
const SEED = 1;
/** The kind checks parameters against the size of a pool; no experiment's pool is larger. */
const POOL_BYTES = 2 ** 32;

/** A registered index with these parameters; `prepare` is called for each client's index. */
export function registeredKind<I extends Index = Index>(
  name: string,
  wishes: Readonly<Record<string, number>> = {},
  prepare: (index: I) => void = () => {},
): IndexKind<I> {
  const kind = kindNamed(name);
  const parameters = kind.parameters(wishes, POOL_BYTES, SEED);
  return {
    create: (pool) => createStore(pool, STORE, kind, parameters),
    *open(pool, entry) {
      const index = (yield* openIndex(pool, entry)) as I;
      prepare(index);
      return index;
    },
  };
}
