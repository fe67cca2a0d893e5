import type { IndexManifest } from '../../../../indexes/contract.ts';
import type {
  AsyncStore,
  IndexChoice,
  IndexName,
  OpenOptions,
  ParametersOf,
  Store,
  StoreStats,
  Value,
} from '../../../api.ts';
import { asyncFacade } from '../../support/facade.ts';
import { attachTo, type Scope } from '../../support/pools.ts';

/** The store that the suite runs on. */
export interface Subject {
  /** node:test's `test`, or one like it. */
  test: (
    name: string,
    options: { todo?: string },
    body: (scope: Scope) => Promise<void>,
  ) => unknown;
  name: string;
  /** A store in a new pool; the caller cleans up by `scope.after`. */
  open?: (scope: Scope, options?: OpenOptions) => Store<Value>;
  /** For a store without synchronous calls, in place of `open`: another client, or the first. */
  openAsync?: (scope: Scope, options?: OpenOptions, first?: AsyncStore<Value>) => AsyncStore<Value>;
  manifest: IndexManifest;
  /** Whether values of tens of MiB are tried too. */
  largeValues?: boolean;
  /** Which calls of `open`'s store: the promised ones are the same on every local pool. */
  twins?: readonly Twin[];
  /** Whether bounded stores are tried, which evict by the same calls on every fabric. */
  bounded?: boolean;
  /** Points that are known to fail, by title, with the reason: reported, but no failure. */
  known?: Readonly<Record<string, string>>;
}

export interface Case {
  s: AsyncStore<Value>;
  /** Another client of the same pool, by default of the same store. */
  attach: (options?: OpenOptions) => AsyncStore<Value>;
}

export interface Suite extends Pick<Subject, 'manifest' | 'largeValues'> {
  /** Whether the store is in memory that this process addresses, and has synchronous calls. */
  local: boolean;
  /** Registers a test for both twins. */
  check: (name: string, body: (given: Case) => Promise<void>, options?: OpenOptions) => void;
  /** Registers a test for the synchronous twin only. */
  checkSync: (
    name: string,
    body: (store: Store<Value>) => Promise<void>,
    options?: OpenOptions,
  ) => void;
}

/** Few slots, so that a few hundred keys make the index grow many times. */
const CRAMPED: ParametersOf = {
  race: { associativity: 2, groups: 3, maxDepth: 16 },
  shard: { partitions: 4, buckets: 2, level1: 3, level2: 2 },
  sephash: { segmentBytes: 64, ratio: 1, maxDepth: 16 },
  chime: { span: 6, neighbourhood: 3, fanout: 3 },
  hstore: { buckets: 4, log: 32 },
  hopscotch: { span: 6, neighbourhood: 3, maxDepth: 16 },
};

/** The index of this name, with few slots. */
export function crampedIndex(name: string): IndexChoice {
  return { kind: name, ...CRAMPED[name as IndexName] } as IndexChoice;
}

/** Options of a store with few slots. */
export function cramped({ name }: IndexManifest): OpenOptions {
  return { index: crampedIndex(name) };
}

type Twin = 'sync' | 'async';

const TWINS = {
  sync: asyncFacade,
  async: (store: Store<Value>) => store.async,
};
const BOTH: readonly Twin[] = ['sync', 'async'];

export function suiteOf(subject: Subject): Suite {
  const { test, name, open, openAsync, manifest, largeValues, known = {}, twins = BOTH } = subject;
  const optionsOf = (title: string) => (known[title] ? { todo: known[title] } : {});
  return {
    manifest,
    largeValues,
    local: open !== undefined,
    check(title, body, options) {
      if (openAsync) {
        test(`${name}: ${title}`, optionsOf(title), async (scope) => {
          const s = openAsync(scope, options);
          await body({ s, attach: (more) => openAsync(scope, more, s) });
        });
      }
      if (!open) return;
      for (const twin of twins) {
        const wrap = TWINS[twin];
        test(`${name} ${twin}: ${title}`, optionsOf(title), async (scope) => {
          const store = open(scope, options);
          const attach = (more?: OpenOptions) => wrap(attachTo(scope, store, more));
          await body({ s: wrap(store), attach });
        });
      }
    },
    checkSync(title, body, options) {
      if (!open) return;
      test(`${name}: ${title}`, optionsOf(title), async (scope) => {
        await body(open(scope, options));
      });
    },
  };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Whether a crowded store must have grown: a table of a fixed size counts nothing that grows. */
export function mustGrow({ onlineResize }: IndexManifest, { resizes }: StoreStats): boolean {
  return onlineResize || Object.keys(resizes).length > 0;
}

/** How often a store has grown by a part, whatever its index calls that. */
export function grown({ resizes }: StoreStats): number {
  return Object.values(resizes).reduce((sum, count) => sum + count, 0);
}
