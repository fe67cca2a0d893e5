import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  type IndexParameters,
} from '../../../src/indexes/contract.ts';
import { type Call, LAST_SEEN, type Write } from '../checks/history.ts';
import { keysAlike, keysInDescent } from '../schedules/keys.ts';
import type { Subject } from '../subjects/subject.ts';

/**
 * An action of a client in a scope. With 'migrate', it moves the index to its new memory node, from
 * the first step to the last. With 'compact', a client to which the pool gives no block calls
 * `Index.compact`; such a client also makes a call that is `withoutMemory`. Calls `atOnce` are in
 * flight at once, and their batches take turns. With 'release', it
 * calls `Index.compact` without its grace period. With 'expire', the clock passes the deadline of
 * records. With 'sweep', it does a turn of `ExpirySweep`.
 */
export type ScopeAction =
  | Call
  | { withoutMemory: Call }
  | { atOnce: Call[] }
  | 'quiesce'
  | 'collect'
  | 'migrate'
  | 'compact'
  | 'release'
  | 'walk'
  | 'expire'
  | 'sweep';

/** A program small enough to run in every order: a table, its first content, and clients. */
export interface Scope {
  name: string;
  subject: Subject;
  parameters: IndexParameters;
  keys: string[];
  /** Done by one client, alone, before the others come. */
  before: Call[];
  clients: ScopeAction[][];
  /** Whether the first client lets the index grow when all have opened it. */
  grown: boolean;
  /** Whether the clients keep what they have found, and read it as a near cache does. */
  near: boolean;
  /** Whether the pool has two memory nodes, and the index is to be on the other one. */
  migrates: boolean;
  /** Batches that the last client executes alone: where in its operation the scope begins. */
  lead: number;
  /**
   * Whether a client that polls waits until what it polls changes or nobody else can go on;
   * otherwise it loses patience at any time, and executions have no natural end.
   */
  patient: boolean;
  /** An execution in which a client begins an operation again more often is cut off. */
  retriesMax: number;
}

const RETRIES_MAX = 20;

/** Stands for a place of the index in which a sample meets the record. */
export const MET = -1;

/** Calls on a key, with values and versions that tell each call from every other one. */
class Calls {
  /** Records that fill all places of keys alike: one more makes the index grow. */
  readonly full: number;
  #id = 0;

  constructor(full: number) {
    this.full = full;
  }

  #next(): { value: string; version: number } {
    const id = ++this.#id * 1000;
    return { value: String(id), version: id };
  }

  #write(key: number, condition: Condition): Call & Write {
    return { key, kind: 'write', condition, expected: LAST_SEEN, ...this.#next() };
  }

  put = (key = 0) => this.#write(key, ALWAYS);
  insert = (key = 0) => this.#write(key, IF_ABSENT);
  update = (key = 0) => this.#write(key, IF_PRESENT);
  increment = (key = 0): Call => ({ key, kind: 'modify', ...this.#next() });
  /** A record with times, which expires at the scope's deadline or never. */
  timed = (times: Write['times']): Call => ({ ...this.#write(0, ALWAYS), times });
  search = (key = 0): Call => ({ key, kind: 'search' });
  remove = (key = 0): Call => ({ key, kind: 'remove' });
  /** An eviction: removes the record that a sample has met. */
  evict = (key = 0): Call => ({ key, kind: 'remove', sampled: MET });
  /** An insertion that draws a version which another one has drawn. */
  insertAlike = (key = 0): Call => ({ ...this.#write(key, IF_ABSENT), version: 7 });
  compareAndRemove = (key = 0): Call => ({ key, kind: 'remove', expected: LAST_SEEN });
}

interface Plan {
  name: string;
  /** How many keys there are; they have fingerprint and all places in common. Default: one. */
  keys?: (full: number) => number;
  /** Whether each key has a smaller fingerprint than the one before, instead of the same one. */
  descends?: boolean;
  before?: (calls: Calls) => Call[];
  clients: (calls: Calls) => ScopeAction[][];
  grown?: boolean;
  migrates?: boolean;
  near?: boolean;
  lead?: number;
  patient?: boolean;
  retriesMax?: number;
}

function scopeOf(subject: Subject, plan: Plan): Scope {
  const { name, keys, before, clients, patient = true } = plan;
  const { grown = false, migrates = false, near = false, lead = 0 } = plan;
  const parameters = subject.smallest;
  const full = subject.placesOfKey(parameters);
  const calls = new Calls(full);
  const chooseKeys = plan.descends ? keysInDescent : keysAlike;
  return {
    name,
    subject,
    parameters,
    keys: chooseKeys(keys?.(full) ?? 1, subject, parameters),
    before: before?.(calls) ?? [],
    clients: clients(calls),
    grown,
    migrates,
    near,
    lead,
    patient,
    retriesMax: plan.retriesMax ?? RETRIES_MAX,
  };
}

const fill = ({ full, put }: Calls) => Array.from({ length: full }, (_, key) => put(key));

/** Scopes that find most within seconds; of most of them all schedules are run, with crashes. */
export const QUICK_SCOPES: readonly string[] = [
  'put-search',
  'put-remove',
  'increment-increment',
  'update-remove-search',
  'compare-update',
  'compare-reinsert',
  'put-put-vacate',
  'split-search',
  'grown-update-search',
  'reuse',
  'migrate-search',
  'migrate-update',
  'compact-late-walk',
];

/** Leaves of one record each: a removal makes two leaves, or the whole tree, one. */
const sparse = ({ full, put, remove }: Calls) => [
  ...Array.from({ length: full + 1 }, (_, key) => put(key)),
  ...Array.from({ length: full - 1 }, (_, key) => remove(key + 2)),
];

/** Scopes of indexes whose parts become one when they are under-full. */
const SHRINKING_CLIENTS: readonly Pick<Plan, 'name' | 'clients'>[] = [
  {
    name: 'shrink-search',
    clients: ({ remove, search }) => [[remove(0)], [search(1)]],
  },
  {
    name: 'shrink-update',
    clients: ({ remove, update }) => [[remove(0)], [update(1)]],
  },
  {
    name: 'shrink-insert',
    clients: ({ remove, insert }) => [[remove(0)], [insert(2)]],
  },
  {
    name: 'shrink-split',
    clients: ({ remove, put }) => [[remove(0)], [put(2), put(3)]],
  },
  {
    // The searcher knows the leaf from before; when it reads it, all of it is elsewhere.
    name: 'shrink-late-search',
    clients: ({ remove, update, search }) => [
      [remove(0), update(1)],
      [search(1), search(1)],
    ],
  },
  {
    name: 'shrink-shrink',
    clients: ({ remove }) => [[remove(0)], [remove(1)]],
  },
  {
    // One repairs the merge from the right leaf on, the other from the left one.
    name: 'shrink-update-insert',
    clients: ({ remove, update, insert }) => [[remove(0)], [update(1)], [insert(0)]],
  },
  {
    // The right leaf of the marked pair is split: only the mark keeps both below one node.
    name: 'shrink-split-search',
    clients: ({ remove, put, search }) => [
      [remove(0), search(1)],
      [put(2), put(3)],
    ],
  },
  {
    name: 'shrink-remove-search',
    clients: ({ remove, insert, search }) => [[remove(0)], [remove(1), insert(1)], [search(1)]],
  },
];

const SHRINKING: readonly Plan[] = SHRINKING_CLIENTS.map((plan) => ({
  ...plan,
  keys: (full) => full + 2,
  before: sparse,
}));

/** Scopes of an index that goes from one memory node to another while it is used. */
const MIGRATING: readonly Plan[] = (
  [
    {
      name: 'migrate-search',
      before: ({ put }) => [put()],
      clients: ({ search }) => [['migrate'], [search()]],
    },
    {
      name: 'migrate-update',
      before: ({ put }) => [put()],
      clients: ({ update }) => [['migrate'], [update()]],
    },
    {
      name: 'migrate-insert',
      clients: ({ insert }) => [['migrate'], [insert()]],
    },
    {
      name: 'migrate-remove-search',
      before: ({ put }) => [put()],
      clients: ({ remove, search }) => [['migrate'], [remove()], [search()]],
    },
    {
      // The resize and the departure are CASes of one word.
      name: 'migrate-split',
      keys: (full) => full + 1,
      before: fill,
      clients: ({ full, put }) => [['migrate'], [put(full)]],
    },
    {
      name: 'migrate-migrate',
      before: ({ put }) => [put()],
      clients: ({ search }) => [['migrate'], ['migrate', search()]],
    },
    {
      // A client that keeps old addresses learns at its quiescent point that they are freed.
      name: 'migrate-reuse',
      before: ({ put }) => [put()],
      clients: ({ search, update }) => [
        ['migrate', 'collect', 'collect', 'collect', update()],
        [search(), 'quiesce', search()],
      ],
    },
  ] satisfies Plan[]
).map((plan) => ({ ...plan, migrates: true }));

/** Scopes of an index that combines the changes of a client's calls in flight on one leaf. */
const COMBINING: readonly Plan[] = [
  {
    name: 'together-search',
    keys: () => 2,
    before: ({ put }) => [put(0)],
    clients: ({ update, insert, search }) => [
      [{ atOnce: [update(0), insert(1), update(0)] }],
      [search(0), search(1)],
    ],
  },
  {
    name: 'together-remove',
    keys: () => 2,
    before: ({ put }) => [put(0), put(1)],
    clients: ({ update, remove, insert }) => [
      [{ atOnce: [update(0), remove(1), insert(1)] }],
      [remove(0)],
    ],
  },
  {
    name: 'together-increment',
    before: ({ put }) => [put(0)],
    clients: ({ increment }) => [[{ atOnce: [increment(), increment()] }], [increment()]],
  },
];

/** Superseded and deleted records wait in the CurSegment and behind the MainSegment. */
const dead = ({ put, remove }: Calls) => [put(0), put(0), put(1), remove(1)];

/** Scopes of an index that a client compacts, mostly without memory, while others use it. */
const COMPACTING: readonly Plan[] = (
  [
    {
      name: 'compact-search',
      clients: ({ search }) => [['compact'], [search(0), search(0)]],
    },
    {
      // The entries of the second key come before those of the first: they take their place.
      name: 'compact-walk',
      descends: true,
      before: ({ put }) => [put(0), put(0), put(1)],
      clients: () => [['walk'], ['compact']],
    },
    {
      // The walk knows where the MainSegment is and has not read its entries.
      name: 'compact-late-walk',
      descends: true,
      before: ({ put }) => [put(0), put(0), put(1)],
      clients: () => [['compact'], ['walk']],
      lead: 4,
    },
    {
      name: 'compact-put',
      clients: ({ put }) => [['compact'], [put(0)]],
    },
    {
      name: 'compact-insert',
      clients: ({ insert }) => [['compact'], [insert(1)]],
    },
    {
      name: 'compact-remove-search',
      clients: ({ remove, search }) => [['compact'], [remove(0)], [search(0)]],
    },
    {
      // The other client has memory: it merges what the first has just written or is about to.
      name: 'compact-merge',
      clients: ({ put, remove }) => [['compact'], [put(0), remove(0)]],
    },
    {
      name: 'release-search',
      clients: ({ search }) => [['release'], [search(0), search(1)]],
    },
    {
      name: 'release-put-remove',
      clients: ({ put, remove }) => [['release'], [put(0), remove(0)]],
    },
    {
      name: 'release-release',
      clients: ({ remove }) => [['release'], ['release'], [remove(0)]],
    },
  ] satisfies Plan[]
).map((plan) => ({ keys: () => 2, before: dead, ...plan }));

/**
 * Scopes of an index of which clients without memory remove, by other means than the others. Not
 * the first client: it has made what is there, and has memory.
 */
const FULL: readonly Plan[] = [
  {
    name: 'full-remove-search',
    before: ({ put }) => [put()],
    clients: ({ remove, search }) => [[search(), search()], [{ withoutMemory: remove() }]],
  },
  {
    name: 'full-put-remove',
    before: ({ put }) => [put()],
    clients: ({ put, remove }) => [[put()], [{ withoutMemory: remove() }]],
  },
  {
    name: 'full-remove-remove',
    before: ({ put }) => [put()],
    clients: ({ remove }) => [[remove()], [{ withoutMemory: remove() }]],
  },
  {
    // The record that the removal names is another one's by the time that it is read.
    name: 'full-update-remove',
    before: ({ put }) => [put()],
    clients: ({ update, remove }) => [
      [update(), 'collect', 'collect', update()],
      [{ withoutMemory: remove() }],
    ],
  },
];

/** Scopes in which the clock passes a record's deadline, or a bounded store evicts it. */
const LEAVING: readonly Plan[] = [
  {
    name: 'expire-search',
    before: ({ timed }) => [timed('deadline')],
    clients: ({ search }) => [['expire', 'sweep'], [search()]],
  },
  {
    name: 'expire-put-search',
    before: ({ timed }) => [timed('deadline')],
    clients: ({ put, search }) => [['expire', 'sweep'], [put()], [search()]],
  },
  {
    name: 'expire-put',
    before: ({ timed }) => [timed('deadline')],
    clients: ({ put }) => [['expire', 'sweep'], [put()]],
  },
  {
    name: 'evict-search',
    before: ({ timed }) => [timed('never')],
    clients: ({ evict, search }) => [[evict()], [search()]],
  },
  {
    name: 'evict-put',
    before: ({ timed }) => [timed('never')],
    clients: ({ evict, put }) => [[evict()], [put()]],
  },
  {
    name: 'evict-put-search',
    before: ({ timed }) => [timed('never')],
    clients: ({ evict, put, search }) => [[evict()], [put()], [search()]],
  },
];

/** Scopes of clients that keep what a search has found: each later search is a near read. */
const NEAR: readonly Plan[] = (
  [
    {
      name: 'near-update',
      before: ({ put }) => [put()],
      clients: ({ update, search }) => [[update()], [search(), search()]],
    },
    {
      name: 'near-remove',
      before: ({ put }) => [put()],
      clients: ({ remove, search }) => [[remove()], [search(), search()]],
    },
    {
      name: 'near-reinsert',
      before: ({ put }) => [put()],
      clients: ({ remove, insert, search }) => [
        [remove(), insert()],
        [search(), search()],
      ],
    },
    {
      // The second client is an epoch ahead: what it proves then is used again two epochs later.
      name: 'near-reuse',
      before: ({ insertAlike }) => [insertAlike()],
      clients: ({ remove, insertAlike, search }) => [
        [remove(), 'collect', 'collect', insertAlike()],
        ['collect', search(), 'quiesce', search()],
      ],
    },
    {
      name: 'near-split',
      keys: (full) => full + 1,
      before: fill,
      clients: ({ full, put, update, search }) => [
        [put(full), update(0)],
        [search(0), search(0)],
      ],
    },
    {
      name: 'near-expire',
      before: ({ timed }) => [timed('deadline')],
      clients: ({ search }) => [['expire'], [search(), search()]],
    },
    {
      name: 'near-migrate',
      before: ({ put }) => [put()],
      clients: ({ search, update }) => [
        ['migrate', 'collect', 'collect', 'collect', update()],
        [search(), 'quiesce', 'quiesce', search()],
      ],
      migrates: true,
    },
    {
      // The search has kept its record before the migration begins.
      name: 'near-kept-migrate',
      before: ({ put }) => [put()],
      clients: ({ search }) => [
        ['migrate', 'collect', 'collect', 'collect'],
        [search(), 'quiesce', 'quiesce', search()],
      ],
      migrates: true,
      lead: 2,
    },
    {
      name: 'near-own-update',
      before: ({ put }) => [put()],
      clients: ({ update, search }) => [[update()], [search(), update(), search()]],
      lead: 1,
    },
    {
      // The second client keeps what it updates, and later uses its block again.
      name: 'near-own-reuse',
      before: ({ put }) => [put()],
      clients: ({ update, remove, insert, search }) => [
        ['quiesce', 'quiesce', 'quiesce'],
        [search(), update(), remove(), 'collect', 'collect', 'collect', insert(), search()],
      ],
    },
    {
      // The second search is a near read; before the third one the record's block comes free.
      name: 'near-kept-remove',
      before: ({ timed }) => [timed('never')],
      clients: ({ remove, search }) => [
        [remove(), 'collect', 'collect', 'collect'],
        [search(), search(), 'quiesce', 'quiesce', search()],
      ],
      lead: 2,
    },
  ] satisfies Plan[]
).map((plan) => ({ ...plan, near: true }));

const PLANS: readonly Plan[] = [
  {
    name: 'put-search',
    clients: ({ put, search }) => [[put()], [search()]],
  },
  {
    name: 'put-put',
    clients: ({ put }) => [[put()], [put()]],
  },
  {
    name: 'insert-insert',
    clients: ({ insert }) => [[insert()], [insert()]],
  },
  {
    name: 'put-remove',
    before: ({ put }) => [put()],
    clients: ({ put, remove }) => [[put()], [remove()]],
  },
  {
    name: 'increment-increment',
    before: ({ put }) => [put()],
    clients: ({ increment }) => [[increment()], [increment()]],
  },
  {
    name: 'same-fingerprint',
    keys: () => 2,
    clients: ({ put, remove }) => [[put(0), remove(0)], [put(1)]],
  },
  {
    name: 'update-remove-search',
    before: ({ put }) => [put()],
    clients: ({ update, remove, search }) => [[update()], [remove()], [search(), search()]],
  },
  {
    name: 'compare-update',
    before: ({ put }) => [put()],
    clients: ({ search, compareAndRemove, update }) => [[search(), compareAndRemove()], [update()]],
  },
  {
    // The key is there again, but not the record that the first client saw.
    name: 'compare-reinsert',
    before: ({ put }) => [put()],
    clients: ({ search, compareAndRemove, remove, insert }) => [
      [search(), compareAndRemove()],
      [remove(), insert()],
    ],
  },
  {
    name: 'put-put-search',
    clients: ({ put, search }) => [[put()], [put()], [search(), search()]],
  },
  {
    // In an index of logs the last put merges what the earlier ones have written.
    name: 'merge-search',
    before: ({ full, put }) => Array.from({ length: full }, () => put()),
    clients: ({ put, search }) => [[put()], [search(), search()]],
  },
  {
    // The slot that comes free in between makes the two inserters choose different ones.
    name: 'put-put-vacate',
    keys: () => 2,
    before: ({ put }) => [put(1)],
    clients: ({ put, remove, search }) => [[put(0)], [remove(1), put(0), search(0)]],
  },
  {
    name: 'put-put-impatient',
    clients: ({ put }) => [[put()], [put()]],
    patient: false,
    retriesMax: 1,
  },
  {
    name: 'split-search',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, put, search }) => [[put(full)], [search(0)]],
  },
  {
    // The searcher knows the bucket from before; when it reads it, some of it is elsewhere.
    name: 'split-late-search',
    keys: (full) => full + 1,
    before: fill,
    clients: ({ full, put, update, search }) => [
      [put(full), update(0), update(1)],
      [search(0), search(1)],
    ],
  },
  {
    name: 'split-update',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, put, update }) => [[put(full)], [update(1)]],
  },
  {
    name: 'split-remove-search',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, put, remove, search }) => [[put(full)], [remove(2)], [search(2)]],
  },
  {
    name: 'split-insert',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, insert }) => [[insert(full)], [insert(full)]],
  },
  {
    name: 'split-split',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, put }) => [[put(full)], [put(full + 1)]],
  },
  {
    name: 'split-put-remove',
    keys: (full) => full + 2,
    before: fill,
    clients: ({ full, put, remove }) => [[put(full)], [remove(3), put(3)]],
  },
  ...SHRINKING,
  ...MIGRATING,
  ...COMPACTING,
  ...FULL,
  ...LEAVING,
  ...NEAR,
  ...COMBINING,
  {
    name: 'grown-insert',
    clients: ({ insert }) => [[insert()], [insert()]],
    grown: true,
  },
  {
    // The first client moves a record that the other two, unaware of the growth, read and write.
    name: 'grown-update-search',
    before: ({ put }) => [put()],
    clients: ({ search, update }) => [[search()], [update()], [search()]],
    grown: true,
  },
  {
    name: 'reuse',
    before: ({ put }) => [put()],
    clients: ({ update, search }) => [[update(), 'collect', 'collect', update()], [search()]],
  },
];

/** The scopes that an index is searched with: of those for all, or of one name, what it can do. */
export function scopes(subject: Subject, name?: string): Scope[] {
  const { ordered, locks } = subject.kind.manifest;
  const removesFull = subject.leaveNothing !== undefined;
  const plans = PLANS.filter(
    (plan) =>
      plan.name === (name ?? plan.name) &&
      (ordered || !SHRINKING.includes(plan)) &&
      (locks === true || !COMBINING.includes(plan)) &&
      (removesFull || !FULL.includes(plan)),
  );
  return plans
    .map((plan) => scopeOf(subject, plan))
    .filter(
      (scope) =>
        (!scope.grown || subject.grow !== undefined) &&
        (!scope.migrates || subject.migrates === true) &&
        (!scope.near || subject.kind.manifest.name !== 'sephash') &&
        (!compacts(scope) || subject.compacts === true),
    );
}

export function isWithoutMemory(action: ScopeAction): boolean {
  return typeof action === 'object' && 'withoutMemory' in action;
}

/** Whether a client of the scope compacts the index. */
export function compacts({ clients }: Scope): boolean {
  return clients.some((actions) => actions.includes('compact') || actions.includes('release'));
}

/** Whether the clock passes the deadline of records. */
export function expires({ clients }: Scope): boolean {
  return clients.some((actions) => actions.includes('expire'));
}

/** Whether there is a record that a search writes to, to note that it was used. */
export function notesUses({ before }: Scope): boolean {
  return before.some((call) => call.kind === 'write' && call.times !== undefined);
}
