import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hasCode } from '../../../errors.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { Eviction, IndexName, Store, Value } from '../../api.ts';
import { checkSync, openAloneSync, openSync } from '../../open.ts';
import { SMALL } from '../support/pools.ts';
import { crampedIndex } from './cases/suite.ts';

/**
 * Random operations on a bounded store by three clients in turn, against a Map of what was written
 * last. What is missing may have been evicted; what is there must be what was written last; what
 * the client has just written is there; helpers' states are never missing; the clients' counts are
 * those of the tables.
 */
const KINDS = [
  'set',
  'set',
  'set',
  'insert',
  'update',
  'delete',
  'take',
  'get',
  'getMany',
  'increment',
  'append',
  'state',
  'compareAndSet',
  'setTimed',
  'later',
  'clear',
] as const;

interface Call {
  by: 0 | 1 | 2;
  kind: (typeof KINDS)[number];
  key: number;
  bytes: number;
}

interface Bound {
  limit: number;
  unit: 'maxRecords' | 'maxBytes';
  eviction: Eviction;
}

const START = 1_700_000_000_000;
const KEYS = 60;
const TTL = 40;
const STATES = 2;

const calls = fc.array(
  fc.record<Call>({
    by: fc.constantFrom(0, 1, 2),
    kind: fc.constantFrom(...KINDS),
    key: fc.nat(KEYS - 1),
    bytes: fc.oneof(fc.nat(40), fc.nat(3000)),
  }),
  { minLength: 50, maxLength: 400, size: 'max' },
);

const bounds = fc.record<Bound>({
  limit: fc.integer({ min: 1, max: 40 }),
  unit: fc.constantFrom('maxRecords', 'maxRecords', 'maxBytes'),
  eviction: fc.constantFrom('lru', 'lfu', 'adaptive'),
});

/** Values begin with a number of their own. */
class Comparison {
  readonly #written = new Map<string, { value: string; expiresAt: number }>();
  readonly states = new Map<string, string>();
  readonly #time: { now: number };
  readonly #bytesMax: number;
  #number = 0;

  constructor(time: { now: number }, bytesMax: number) {
    this.#time = time;
    this.#bytesMax = bytesMax;
  }

  perform(store: Store<Value>, { kind, key: number, bytes }: Call): void {
    const key = `key ${number}`;
    const value = `${++this.#number} ${'v'.repeat(bytes)}`;
    const note = (written: string, expiresAt = Number.POSITIVE_INFINITY) => {
      this.#written.set(key, { value: written, expiresAt });
      assert.equal(store.get(key), written, 'what was just written is there');
    };
    const actions: Record<Call['kind'], () => void> = {
      set: () => {
        store.set(key, value);
        note(value);
      },
      insert: () => {
        if (store.insert(key, value)) note(value);
        else this.#compare(key, store.get(key), true);
      },
      update: () => {
        if (store.update(key, value)) note(value);
      },
      delete: () => {
        store.delete(key);
        this.#written.delete(key);
        assert.equal(store.get(key), undefined);
      },
      take: () => {
        this.#compare(key, store.take(key));
        this.#written.delete(key);
      },
      get: () => this.#compare(key, store.get(key)),
      getMany: () => {
        const keys = Array.from({ length: KEYS }, (_, i) => `key ${i}`);
        store.getMany(keys).forEach((found, i) => {
          this.#compare(keys[i], found);
        });
      },
      increment: () => {
        store.delete(key);
        note(String(store.increment(key, 5)));
      },
      append: () => {
        const before = store.get(key);
        this.#compare(key, before);
        assert.equal(store.append(key, value), (before ?? '').length + value.length);
        const { expiresAt } = (before !== undefined && this.#written.get(key)) || {};
        note(`${before ?? ''}${value}`, expiresAt);
      },
      state: () => this.#changeState(store, `state ${number % STATES}`, value),
      compareAndSet: () => {
        const entry = store.getEntry(key);
        this.#compare(key, entry?.value);
        if (entry === undefined) return;
        assert.notEqual(store.compareAndSet(key, entry.version, value), undefined);
        note(value);
      },
      setTimed: () => {
        store.set(key, value, { ttlMs: TTL });
        note(value, this.#time.now + TTL);
      },
      later: () => {
        this.#time.now += bytes % TTL;
      },
      clear: () => {
        store.clear();
        this.#written.clear();
      },
    };
    try {
      actions[kind]();
    } catch (error) {
      // A record that alone is larger than the bound changes nothing.
      if (!hasCode(error, 'SW_INVALID_VALUE')) throw error;
      const length = value.length + (this.#written.get(key)?.value.length ?? 0);
      assert.ok(1.25 * (length + 100) > this.#bytesMax, `${length} of ${this.#bytesMax}`);
    }
  }

  #changeState(store: Store<Value>, name: string, value: string): void {
    const before = store.changeState(name, (state) => ({ result: state, next: value }));
    assert.equal(before, this.states.get(name));
    this.states.set(name, value);
  }

  #compare(key: string, found: Value | undefined, must = false): void {
    const written = this.#written.get(key);
    const isLive = written !== undefined && written.expiresAt > this.#time.now;
    if (found === undefined) assert.ok(!must, 'a key that refused an insertion is there');
    else assert.equal(found, isLive ? written.value : undefined);
  }
}

function runModel(index: IndexName, { limit, unit, eviction }: Bound, list: Call[]): void {
  const time = { now: START };
  const clock = () => time.now;
  const most = unit === 'maxRecords' ? limit : 512 * limit;
  const bound = { [unit]: most, eviction };
  const first = openSync('memory:', { ...SMALL, index: crampedIndex(index), clock, ...bound });
  const stores = [first, openAloneSync(first.handle, { clock }), openSync(first.handle)];
  try {
    const bytesMax = unit === 'maxBytes' ? most : Number.POSITIVE_INFINITY;
    const comparison = new Comparison(time, bytesMax);
    for (const call of list) comparison.perform(stores[call.by], call);
    for (const store of stores) {
      const { records, bound: counted } = store.stats();
      assert.equal(counted?.records, records);
      if (unit === 'maxRecords')
        assert.ok(records <= most + 2 + comparison.states.size, `${records} of ${most}`);
    }
    const { problems, leftover } = checkSync(first.handle);
    assert.deepEqual({ problems, leftover }, { problems: [], leftover: { blocks: 0, bytes: 0 } });
  } finally {
    for (const store of stores) store.close();
  }
}

for (const { manifest } of INDEX_KINDS) {
  const kind = manifest.name as IndexName;
  test(`${kind}: of a bounded store only what was evicted is missing`, () => {
    const property = fc.property(bounds, calls, (bound, list) => runModel(kind, bound, list));
    fc.assert(property, {
      numRuns: rounds(6, 60),
      interruptAfterTimeLimit: rounds(30_000, 600_000),
    });
  });
}
