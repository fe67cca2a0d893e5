import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { Key, OpenOptions, Store } from '../../api.ts';
import { checkSync, openAloneSync, openSync } from '../../open.ts';
import type { RangeBounds, Scan } from '../../ordered-api.ts';
import { SMALL } from '../support/pools.ts';

/**
 * Random ranges of random keys against a sorted list, by two clients of one pool in turn, on leaves
 * so small that most runs split and merge them many times.
 */
const PREFIXES = ['', '\0', 'common/', 'common/'.repeat(30), 'c'.repeat(20_000)];

/** Keys of few letters, so that bounds often hit keys, prefixes of them and the gaps between. */
const keys = fc
  .tuple(
    fc.constantFrom(...PREFIXES, '', 'common/', 'common/'),
    fc.oneof(
      { weight: 4, arbitrary: fc.nat(60).map((i) => Buffer.from(`${i}`)) },
      { weight: 2, arbitrary: fc.uint8Array({ maxLength: 3 }) },
      { weight: 1, arbitrary: fc.constantFrom(...[[], [0], [0xff], [0xff, 0xff]].map(bytes)) },
    ),
  )
  .map(([prefix, rest]) => Buffer.concat([Buffer.from(prefix), rest]));

function bytes(list: number[]): Uint8Array {
  return Uint8Array.from(list);
}

const bound = <O extends string, C extends string>(open: O, closed: C) =>
  fc.option(
    fc.tuple(keys, fc.boolean()).map(([key, isOpen]) => ({ [isOpen ? open : closed]: key })),
    { nil: {}, freq: 4 },
  );

const ranges = fc
  .tuple(bound('gt', 'gte'), bound('lt', 'lte'))
  .map(([lower, upper]): RangeBounds => ({ ...lower, ...upper }));

/** What is done with a scan, one after the other. */
const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('next' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('many' as const),
        size: fc.integer({ min: 1, max: 40 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('seek' as const), key: keys }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('return' as const) }) },
  ),
  { maxLength: 12 },
);

const limits = fc.option(fc.nat(30), { nil: Number.POSITIVE_INFINITY, freq: 2 });
const scans = { range: ranges, limit: limits, reverse: fc.boolean() };
const kind = <K extends string>(name: K) => fc.constant(name);

const calls = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: fc.record({ kind: kind('set'), key: keys, long: fc.boolean() }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: kind('fill'), from: fc.nat(60), count: fc.nat(40) }),
    },
    { weight: 5, arbitrary: fc.record({ kind: kind('delete'), key: keys }) },
    { weight: 6, arbitrary: fc.record({ kind: kind('scan'), ...scans }) },
    { weight: 4, arbitrary: fc.record({ kind: kind('steps'), ...scans, steps }) },
    { weight: 3, arbitrary: fc.record({ kind: kind('ends'), range: ranges }) },
    { weight: 1, arbitrary: fc.record({ kind: kind('clear'), ...scans }) },
  ),
  { minLength: 10, maxLength: 120, size: 'max' },
);
type Call = (typeof calls extends fc.Arbitrary<infer T> ? T : never)[number];
type Step = (typeof steps extends fc.Arbitrary<infer T> ? T : never)[number];

const shapes = fc.record({
  span: fc.integer({ min: 4, max: 9 }),
  neighbourhood: fc.integer({ min: 2, max: 4 }),
  fanout: fc.integer({ min: 2, max: 4 }),
});

interface Pair {
  key: Buffer;
  value: string;
}

const hex = (key: Key | undefined) => key && Buffer.from(key as string).toString('hex');

/** The obvious implementation: a sorted list. */
class SortedList {
  pairs: Pair[] = [];

  set(key: Buffer, value: string): void {
    this.delete(key);
    this.pairs.push({ key, value });
    this.pairs.sort((a, b) => Buffer.compare(a.key, b.key));
  }

  delete(key: Buffer): boolean {
    const before = this.pairs.length;
    this.pairs = this.pairs.filter((pair) => !pair.key.equals(key));
    return this.pairs.length < before;
  }

  range({ gt, gte, lt, lte }: RangeBounds, reverse = false): Pair[] {
    const order = (key: Buffer, other: Key) => Buffer.compare(key, Buffer.from(other as string));
    const found = this.pairs.filter(
      ({ key }) =>
        (gt === undefined || order(key, gt) > 0) &&
        (gte === undefined || order(key, gte) >= 0) &&
        (lt === undefined || order(key, lt) < 0) &&
        (lte === undefined || order(key, lte) <= 0),
    );
    return reverse ? found.reverse() : found;
  }
}

function same(found: readonly (readonly [Key, string])[], expected: readonly Pair[]): void {
  assert.deepEqual(
    found.map(([key, value]) => [hex(key), value]),
    expected.map(({ key, value }) => [hex(key), value]),
  );
}

class Comparison {
  readonly model = new SortedList();
  #value = 0;

  perform(store: Store<string>, call: Call): void {
    const { model } = this;
    if (call.kind === 'set') this.#set(store, call.key, call.long);
    else if (call.kind === 'delete') {
      assert.equal(store.delete(call.key), model.delete(call.key));
    } else if (call.kind === 'fill') {
      for (let i = 0; i < call.count; i++) {
        this.#set(store, Buffer.from(`common/${call.from + i}`), false);
      }
    } else if (call.kind === 'ends') this.#ends(store, call.range);
    else {
      const options = { ...call.range, reverse: call.reverse, limit: call.limit };
      const expected = model.range(call.range, call.reverse);
      const limited = expected.slice(0, call.limit);
      if (call.kind === 'scan') same([...store.scan(options)], limited);
      else if (call.kind === 'steps') {
        const order = call.reverse ? -1 : 1;
        steer(store.scan(options), expected, call.limit, order, call.steps);
      } else {
        store.clear(options);
        for (const { key } of limited) model.delete(key);
      }
    }
  }

  #set(store: Store<string>, key: Buffer, long: boolean): void {
    const value = `${this.#value++}`.padEnd(long ? 20_000 : 0, 'v');
    store.set(key, value);
    this.model.set(key, value);
  }

  #ends(store: Store<string>, range: RangeBounds): void {
    const expected = this.model.range(range);
    assert.equal(store.count(range), expected.length);
    assert.equal(hex(store.first(range)?.[0]), hex(expected[0]?.key));
    assert.equal(hex(store.last(range)?.[0]), hex(expected.at(-1)?.key));
    assert.equal(store.last(range)?.[1], expected.at(-1)?.value);
  }
}

/** Walks through the expected pairs as the scan does. */
function steer(
  scan: Scan<[Key, string]>,
  expected: readonly Pair[],
  limit: number,
  order: 1 | -1,
  list: readonly Step[],
): void {
  let at = 0;
  let left = limit;
  for (const step of list) {
    if (step.kind === 'seek') {
      scan.seek(step.key);
      at = expected.findIndex(({ key }) => Buffer.compare(key, step.key) * order >= 0);
      if (at < 0) at = expected.length;
    } else if (step.kind === 'return') {
      scan.return();
      left = 0;
    } else {
      const size = step.kind === 'next' ? 1 : step.size;
      const due = expected.slice(at, at + Math.min(size, left));
      const found = step.kind === 'next' ? [scan.next().value] : scan.nextMany(size);
      same(
        found.filter((pair) => pair !== undefined),
        due,
      );
      at += due.length;
      left -= due.length;
    }
  }
}

function runModel(options: OpenOptions, list: readonly Call[]): void {
  const first = openSync('memory:', { ...SMALL, ...options, values: 'utf8' });
  const second = openAloneSync<string>(first.handle, { keys: 'bytes' });
  try {
    const comparison = new Comparison();
    list.forEach((call, i) => {
      comparison.perform(i % 3 === 0 ? second : first, call);
    });
    same([...first.scan()], comparison.model.pairs);
    same([...second.scan({ reverse: true })], comparison.model.pairs.toReversed());
    assert.deepEqual(checkSync(first.handle).problems, []);
  } finally {
    second.close();
    first.close();
  }
}

/** Logs so short that most scans build their skiplist anew, and so long that none does. */
const hstores = fc
  .record({
    pairs: fc.integer({ min: 1, max: 3 }),
    buckets: fc.constantFrom(1, 8),
    rows: fc.constant(64),
    log: fc.constantFrom(2, 16, 1024),
    partitions: fc.integer({ min: 1, max: 3 }),
  })
  .map((hstore): OpenOptions => ({ index: { kind: 'hstore', ...hstore } }));
const chimes = shapes.map((chime): OpenOptions => ({ index: { kind: 'chime', ...chime } }));

for (const [name, options] of Object.entries({ chime: chimes, hstore: hstores })) {
  test(`${name}: random ranges agree with a sorted list`, () => {
    fc.assert(fc.property(options, calls, runModel), {
      numRuns: rounds(20, 300),
      includeErrorInReport: true,
      interruptAfterTimeLimit: rounds(60_000, 600_000),
    });
  });
}
