import { ALWAYS, type Condition, IF_ABSENT, IF_PRESENT } from '../../indexes/contract.ts';
import type { RaceShape } from '../../indexes/race/geometry.ts';
import { type Call, LAST_SEEN } from '../history.ts';
import { keysAlike } from '../keys.ts';

/** What a client of a scope does, one after the other. */
export type ScopeAction = Call | 'quiesce' | 'collect';

/** A program small enough to run in every order: a table, its first content, and clients. */
export interface Scope {
  name: string;
  shape: RaceShape;
  keys: string[];
  /** Done by one client, alone, before the others come. */
  before: Call[];
  clients: ScopeAction[][];
  /** Batches that the first client executes alone: where in its operation the scope begins. */
  lead: number;
  /**
   * Whether a client that polls waits until what it polls changes or nobody else can go on;
   * otherwise it loses patience at any time, and executions have no natural end.
   */
  patient: boolean;
  /** An execution in which a client begins an operation again more often is given up. */
  retriesMax: number;
}

const SHAPE: RaceShape = { associativity: 1, groups: 2, initialDepth: 0, maxDepth: 3, seed: 7 };
const RETRIES_MAX = 20;

/** Calls on a key, with values and versions that tell each call from every other one. */
class Calls {
  #id = 0;

  #next(): { value: string; version: number } {
    const id = ++this.#id * 1000;
    return { value: String(id), version: id };
  }

  #write(key: number, condition: Condition): Call {
    return { key, kind: 'write', condition, expected: LAST_SEEN, ...this.#next() };
  }

  put = (key = 0) => this.#write(key, ALWAYS);
  insert = (key = 0) => this.#write(key, IF_ABSENT);
  update = (key = 0) => this.#write(key, IF_PRESENT);
  increment = (key = 0): Call => ({ key, kind: 'modify', ...this.#next() });
  search = (key = 0): Call => ({ key, kind: 'search' });
  remove = (key = 0): Call => ({ key, kind: 'remove' });
}

interface Plan {
  name: string;
  shape?: Partial<RaceShape>;
  /** Keys that have all four buckets in common, and as many lower bits of their hashes. */
  keys?: { count: number; suffixBits?: number; fingerprint?: boolean };
  before?: (calls: Calls) => Call[];
  clients: (calls: Calls) => ScopeAction[][];
  lead?: number;
  patient?: boolean;
  retriesMax?: number;
}

function scope(plan: Plan): Scope {
  const { name, shape, keys, before, clients, lead = 0, patient = true } = plan;
  const calls = new Calls();
  const full = { ...SHAPE, ...shape };
  const { count = 1, suffixBits = 0, fingerprint = true } = keys ?? {};
  return {
    name,
    shape: full,
    keys: keysAlike(count, full, { suffixBits, fingerprint }),
    before: before?.(calls) ?? [],
    clients: clients(calls),
    lead,
    patient,
    retriesMax: plan.retriesMax ?? RETRIES_MAX,
  };
}

/** Four records fill all buckets of keys alike: the fifth needs a split. */
const fill = ({ put }: Calls) => [0, 1, 2, 3].map((key) => put(key));

/** Scopes of which all schedules, with crashes, are run within seconds. */
export const QUICK_SCOPES: readonly string[] = [
  ...['put-search', 'put-remove', 'increment-increment', 'update-remove-search'],
  ...['put-put-vacate', 'split-search', 'reuse'],
];

/** The scopes that every index is searched with. */
export function scopes(): Scope[] {
  return [
    scope({
      name: 'put-search',
      clients: ({ put, search }) => [[put()], [search()]],
    }),
    scope({
      name: 'put-put',
      clients: ({ put }) => [[put()], [put()]],
    }),
    scope({
      name: 'insert-insert',
      clients: ({ insert }) => [[insert()], [insert()]],
    }),
    scope({
      name: 'put-remove',
      before: ({ put }) => [put()],
      clients: ({ put, remove }) => [[put()], [remove()]],
    }),
    scope({
      name: 'increment-increment',
      before: ({ put }) => [put()],
      clients: ({ increment }) => [[increment()], [increment()]],
    }),
    scope({
      name: 'same-fingerprint',
      keys: { count: 2 },
      clients: ({ put, remove }) => [[put(0), remove(0)], [put(1)]],
    }),
    scope({
      name: 'update-remove-search',
      before: ({ put }) => [put()],
      clients: ({ update, remove, search }) => [[update()], [remove()], [search(), search()]],
    }),
    scope({
      name: 'put-put-search',
      clients: ({ put, search }) => [[put()], [put()], [search(), search()]],
    }),
    scope({
      // The slot that comes free in between makes the two inserters choose different ones.
      name: 'put-put-vacate',
      keys: { count: 2 },
      before: ({ put }) => [put(1)],
      clients: ({ put, remove, search }) => [[put(0)], [remove(1), put(0), search(0)]],
    }),
    scope({
      name: 'put-put-impatient',
      clients: ({ put }) => [[put()], [put()]],
      patient: false,
      retriesMax: 1,
    }),
    scope({
      name: 'split-search',
      keys: { count: 6 },
      before: fill,
      clients: ({ put, search }) => [[put(4)], [search(0)]],
    }),
    scope({
      name: 'split-update',
      keys: { count: 6 },
      before: fill,
      clients: ({ put, update }) => [[put(4)], [update(1)]],
    }),
    scope({
      name: 'split-remove-search',
      keys: { count: 6 },
      before: fill,
      clients: ({ put, remove, search }) => [[put(4)], [remove(2)], [search(2)]],
    }),
    scope({
      name: 'split-insert',
      keys: { count: 6 },
      before: fill,
      clients: ({ insert }) => [[insert(4)], [insert(4)]],
    }),
    scope({
      name: 'split-split',
      keys: { count: 6 },
      before: fill,
      clients: ({ put }) => [[put(4)], [put(5)]],
    }),
    scope({
      name: 'split-put-remove',
      keys: { count: 6 },
      before: fill,
      clients: ({ put, remove }) => [[put(4)], [remove(3), put(3)]],
    }),
    scope({
      name: 'reuse',
      before: ({ put }) => [put()],
      clients: ({ update, search }) => [[update(), 'collect', 'collect', update()], [search()]],
    }),
  ];
}
