import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SEPHASH_TECHNIQUES } from '../../../indexes/sephash/geometry.ts';
import { SHARD_TECHNIQUES } from '../../../indexes/shard/parameters.ts';
import { WITHOUT, without } from '../../../indexes/substrates/parameters.ts';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { IndexChoice, IndexName, Key, ParametersOf, Store, Value } from '../../api.ts';
import { checkSync, openAloneSync, openSync } from '../../open.ts';
import { SMALL } from '../support/pools.ts';
import { replace } from '../support/replace.ts';

/**
 * Random operations against a Map, by two clients of one pool in turn. Tables are so small that
 * most runs split many times. fast-check prints the seed and the shrunk operations of a failure;
 * all chances of the store itself come from `Math.random`, which is seeded here.
 */
type Model = Map<string, { key: Uint8Array; value: Value; times: Times }>;

/** When a record expires, and after which time without a read; both infinite for never. */
interface Times {
  expiresAt: number;
  span: number;
}

const FOREVER: Times = { expiresAt: Number.POSITIVE_INFINITY, span: Number.POSITIVE_INFINITY };
const START = 1_700_000_000_000;
/** Fewer than there are keys, so that it evicts. */
const NEAR_ENTRIES = 32;

interface Call {
  by: 0 | 1 | 2;
  kind: (typeof KINDS)[number];
  key: number;
  value: Value;
  more: number[];
}

const KINDS = [
  'set',
  'set',
  'insert',
  'update',
  'delete',
  'take',
  'get',
  'getEntry',
  'has',
  'write',
  'writeAbsent',
  'writePresent',
  'compareAndSet',
  'stale',
  'increment',
  'read',
  'compareAndDelete',
  'staleDelete',
  'getMany',
  'setMany',
  'deleteMany',
  'entries',
  'scan',
  'size',
  'clear',
  'setTimed',
  'setSliding',
  'keepTtl',
  'expire',
  'ttl',
  'later',
] as const;

/** Text and bytes, prefixes of one another, and one that a slot's length field cannot express. */
const KEYS: readonly Key[] = [
  '',
  'a',
  'a\0',
  'a\0\0',
  'é',
  'counter',
  'x'.repeat(16_300),
  Uint8Array.of(0xff),
  Uint8Array.of(0xff, 0),
  new Uint8Array(8),
  new Uint8Array(16),
  ...Array.from({ length: 60 }, (_, i) => `key ${i}`),
];

const calls = fc.array(
  fc.record<Call>({
    by: fc.constantFrom(0, 1, 2),
    kind: fc.constantFrom(...KINDS),
    key: fc.nat(KEYS.length - 1),
    value: fc.oneof(
      { weight: 6, arbitrary: fc.uint8Array({ maxLength: 40 }) },
      { weight: 3, arbitrary: fc.string({ unit: 'grapheme', maxLength: 20 }) },
      { weight: 3, arbitrary: fc.integer().map(String) },
      { weight: 1, arbitrary: fc.nat(40_000).map((length) => 'v'.repeat(length)) },
    ),
    more: fc.array(fc.nat(KEYS.length - 1), { maxLength: 40 }),
  }),
  { minLength: 20, maxLength: 250, size: 'max' },
);

const { without: ORDERED } = without(SHARD_TECHNIQUES, 'ordered');
const depths = { initialDepth: fc.integer({ min: 0, max: 2 }), maxDepth: fc.constant(20) };

/** The parameters of a run's index. */
const SHAPES: { [K in IndexName]: fc.Arbitrary<ParametersOf[K]> } = {
  race: fc.record({
    associativity: fc.integer({ min: 1, max: 3 }),
    groups: fc.integer({ min: 2, max: 4 }),
    ...depths,
  }),
  sephash: fc.record({
    segmentBytes: fc.constantFrom(16, 32, 64, 128),
    ratio: fc.integer({ min: 1, max: 3 }),
    window: fc.constantFrom(0, 1, 2),
    [WITHOUT]: fc.nat(2 ** SEPHASH_TECHNIQUES.length - 1),
    ...depths,
  }),
  shard: fc.record({
    buckets: fc.constantFrom(1, 2, 4),
    level1: fc.integer({ min: 1, max: 9 }),
    level2: fc.integer({ min: 1, max: 3 }),
    threshold: fc.constantFrom(30, 80, 100),
    resizes: fc.constantFrom(0, 1, 9, 24),
    [WITHOUT]: fc.constantFrom(0, ORDERED),
  }),
  chime: fc.record({
    span: fc.integer({ min: 4, max: 9 }),
    neighbourhood: fc.integer({ min: 2, max: 4 }),
    fanout: fc.integer({ min: 2, max: 4 }),
  }),
  hstore: fc.record({
    pairs: fc.integer({ min: 1, max: 3 }),
    buckets: fc.constantFrom(1, 2, 8),
    rows: fc.constantFrom(2, 64),
    log: fc.constantFrom(2, 8, 64),
    partitions: fc.integer({ min: 1, max: 3 }),
  }),
  hopscotch: fc.record({
    span: fc.integer({ min: 4, max: 9 }),
    neighbourhood: fc.integer({ min: 2, max: 4 }),
    inlineBytes: fc.constantFrom(0, 16, 48),
    ...depths,
  }),
};

const idOf = (key: Key) => Buffer.from(key as string).toString('hex');
const bytesOf = (value: Value) => Buffer.from(value as string);

class Comparison {
  readonly model: Model = new Map();
  readonly stores: readonly Store<Value>[];
  readonly time: { now: number };
  #stale = 0;

  constructor(stores: readonly Store<Value>[], time: { now: number }) {
    this.stores = stores;
    this.time = time;
  }

  #forgetExpired(): void {
    for (const [id, { times }] of this.model) {
      if (times.expiresAt <= this.time.now) this.model.delete(id);
    }
  }

  /** A read of a record that slides, unless it was read just before. */
  #slide(id: string): void {
    const times = this.model.get(id)?.times ?? FOREVER;
    const { now } = this.time;
    if (times.span === Number.POSITIVE_INFINITY) return;
    if (times.expiresAt - now < times.span - times.span / 64) times.expiresAt = now + times.span;
  }

  perform(call: Call): void {
    const { model } = this;
    const store = this.stores[call.by];
    const { value, more } = call;
    const key = KEYS[call.key];
    const id = idOf(key);
    this.#forgetExpired();
    const old = model.get(id)?.value;
    const oldTimes = model.get(id)?.times ?? FOREVER;
    const set = (to: Value, times: Times = FOREVER) => {
      model.set(id, { key: Buffer.from(key as string), value: to, times: { ...times } });
    };
    const ttlMs = 1 + more.length;
    const { now } = this.time;
    const actions: Record<Call['kind'], () => void> = {
      set: () => {
        store.set(key, value);
        set(value);
      },
      insert: () => {
        assert.equal(store.insert(key, value), old === undefined);
        if (old === undefined) set(value);
      },
      update: () => {
        assert.equal(store.update(key, value), old !== undefined);
        if (old !== undefined) set(value);
      },
      delete: () => {
        assert.equal(store.delete(key), model.delete(id));
      },
      take: () => {
        assertValue(store.take(key), old);
        model.delete(id);
      },
      get: () => {
        assertValue(store.get(key), old);
        this.#slide(id);
      },
      getEntry: () => {
        assertValue(store.getEntry(key)?.value, old);
        this.#slide(id);
      },
      has: () => {
        assert.equal(store.has(key), old !== undefined);
        this.#slide(id);
      },
      write: () => {
        const { written, previous } = store.write(key, value, { previous: true });
        assert.equal(written, true);
        assertValue(previous, old);
        set(value);
      },
      writeAbsent: () => {
        const outcome = store.write(key, value, { when: 'absent', previous: true });
        assert.equal(outcome.written, old === undefined);
        assertValue(outcome.previous, old);
        if (old === undefined) set(value);
      },
      writePresent: () => {
        const outcome = store.write(key, value, { when: 'present', previous: true });
        assert.equal(outcome.written, old !== undefined);
        assertValue(outcome.previous, old);
        if (old !== undefined) set(value);
      },
      compareAndSet: () => {
        const version = store.getEntry(key)?.version ?? 0;
        const stored = store.compareAndSet(key, version, value);
        assert.equal(stored !== undefined, old !== undefined);
        if (old === undefined) return;
        set(value);
        this.#stale = version;
      },
      stale: () => {
        assert.equal(store.compareAndSet(key, this.#staleFor(store, key), value), undefined);
        this.#slide(id);
      },
      compareAndDelete: () => {
        const version = store.getEntry(key)?.version ?? 0;
        assert.equal(store.compareAndDelete(key, version), model.delete(id));
        this.#stale = version;
      },
      staleDelete: () => {
        assert.equal(store.compareAndDelete(key, this.#staleFor(store, key)), false);
        this.#slide(id);
      },
      increment: () => this.#increment(store, key, old, (to) => set(to, renewed(oldTimes, now))),
      read: () => {
        const found = store.read(key, (bytes) => Buffer.from(bytes));
        assert.deepEqual(found, old === undefined ? undefined : bytesOf(old));
        this.#slide(id);
      },
      getMany: () => {
        const found = store.getMany(more.map((i) => KEYS[i]));
        found.forEach((given, i) => {
          assertValue(given, model.get(idOf(KEYS[more[i]]))?.value);
        });
        for (const i of more) this.#slide(idOf(KEYS[i]));
      },
      setMany: () => {
        store.setMany(more.map((i, n) => [KEYS[i], `${n}`] as const));
        more.forEach((i, n) => {
          const entry = { key: Buffer.from(KEYS[i] as string), value: `${n}`, times: FOREVER };
          model.set(idOf(KEYS[i]), { ...entry, times: { ...FOREVER } });
        });
      },
      deleteMany: () => {
        const removed = store.deleteMany(more.map((i) => KEYS[i]));
        const present = new Set(more.map((i) => idOf(KEYS[i])).filter((each) => model.has(each)));
        assert.equal(removed, present.size);
        for (const each of present) model.delete(each);
      },
      entries: () => this.assertEqual(store),
      scan: () => this.#scan(store, 1 + more.length),
      size: () => assert.equal(store.size, model.size),
      clear: () => {
        store.clear();
        model.clear();
      },
      setTimed: () => {
        store.set(key, value, { ttlMs });
        set(value, { expiresAt: now + ttlMs, span: Number.POSITIVE_INFINITY });
      },
      setSliding: () => {
        store.set(key, value, { ttlMs, sliding: true });
        set(value, { expiresAt: now + ttlMs, span: ttlMs });
      },
      keepTtl: () => {
        store.write(key, value, { keepTtl: true });
        set(value, renewed(oldTimes, now));
      },
      expire: () => {
        assert.equal(store.expire(key, { ttlMs }), old !== undefined);
        if (old === undefined) return;
        set(old, { expiresAt: now + ttlMs, span: Number.POSITIVE_INFINITY });
      },
      ttl: () => {
        const expected = old === undefined ? undefined : oldTimes.expiresAt - now;
        assert.equal(store.ttl(key), expected);
      },
      later: () => {
        this.time.now += more.length;
      },
    };
    actions[call.kind]();
  }

  /** Of another key, maybe: there this key's version may be the very same number. */
  #staleFor(store: Store<Value>, key: Key): number {
    const current = store.getEntry(key)?.version;
    return this.#stale - (this.#stale - 1 === current ? 2 : 1);
  }

  #increment(store: Store<Value>, key: Key, old: Value | undefined, set: (to: Value) => void) {
    const text = old === undefined ? '0' : bytesOf(old).toString('latin1');
    const integer = /^(0|-?[1-9][0-9]{0,14})$/.test(text);
    if (integer) {
      assert.equal(store.increment(key, 3), Number(text) + 3);
      set(String(Number(text) + 3));
    } else {
      assert.throws(() => store.increment(key, 3), { name: 'StepwellError' });
    }
  }

  #scan(store: Store<Value>, count: number): void {
    const found: [string, Value][] = [];
    for (let cursor = 0, pages = 0; pages === 0 || cursor !== 0; pages++) {
      const page = store.scanPage(cursor, count);
      for (const { key, value } of page.entries) found.push([idOf(key), value]);
      cursor = page.cursor;
      assert.ok(pages < 10_000);
    }
    this.#compare(found);
  }

  /** By iteration: the same keys, once each, with the same values of the same kinds. */
  assertEqual(store: Store<Value>): void {
    this.#compare([...store].map(([key, value]) => [idOf(key), value]));
  }

  #compare(found: readonly (readonly [string, Value])[]): void {
    this.#forgetExpired();
    assert.equal(found.length, this.model.size);
    for (const [id, value] of found) assertValue(value, this.model.get(id)?.value);
  }
}

/** Of a record that is written and keeps its times: one that slides does so. */
function renewed(times: Times, now: number): Times {
  const { span } = times;
  return span === Number.POSITIVE_INFINITY ? times : { expiresAt: now + span, span };
}

function assertValue(actual: Value | undefined, expected: Value | undefined): void {
  assert.equal(typeof actual, typeof expected);
  if (actual === undefined || expected === undefined) return;
  assert.ok(bytesOf(actual).equals(bytesOf(expected)));
}

function seeded(seed: number): () => number {
  let x = seed | 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) / 2 ** 32;
  };
}

function runModel(index: IndexChoice, list: Call[]): void {
  const time = { now: START };
  const clock = () => time.now;
  const first = openSync('memory:', { ...SMALL, index, clock });
  const kind = typeof index === 'string' ? index : index.kind;
  // The other client answers most reads from its near cache, if the index allows one.
  const nearCache = kind === 'sephash' ? 0 : NEAR_ENTRIES;
  const second = openAloneSync(first.handle, { clock, nearCache });
  const twin = openSync(first.handle, { clock });
  try {
    const comparison = new Comparison([first, second, twin], time);
    for (const call of list) comparison.perform(call);
    comparison.assertEqual(first);
    comparison.assertEqual(second);
    assert.equal(first.size, comparison.model.size);
    const report = checkSync(first.handle);
    assert.deepEqual(report.problems, []);
    // Those that have expired are counted as long as no client has taken them out.
    assert.ok(report.stores[0].records >= comparison.model.size);
    second.close();
    comparison.assertEqual(first);
    assert.deepEqual(checkSync(first.handle).problems, []);
  } finally {
    twin.close();
    second.close();
    first.close();
  }
}

for (const [name, shapes] of Object.entries(SHAPES)) {
  const kind = name as IndexName;
  test(`${kind}: random operations of two clients agree with a Map`, () => {
    const property = fc.property(fc.nat(), shapes, calls, (seed, shape, list) => {
      const restore = replace(Math, 'random', seeded(seed));
      try {
        runModel({ kind, ...shape } as IndexChoice, list);
      } finally {
        restore();
      }
    });
    fc.assert(property, {
      numRuns: rounds(20, 300),
      includeErrorInReport: true,
      interruptAfterTimeLimit: rounds(60_000, 600_000),
    });
  });
}
