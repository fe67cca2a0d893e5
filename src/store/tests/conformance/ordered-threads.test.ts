import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { OpenOptions, Store } from '../../api.ts';
import { checkSync } from '../../open.ts';
import { freshStore, type Scope } from '../support/pools.ts';
import { inThread } from '../support/processes/children.ts';

/** At least so many, and until the writers got round meanwhile, however slowly they are let run. */
const SCANS = 60;
const SCANS_MAX = 20_000;
/** So many rounds are never reached: the writers are stopped. */
const ROUNDS_MAX = 1_000_000;
const TRIES_MAX = 100_000;

const name = (i: number) => `key ${String(i).padStart(5, '0')}`;

/** The rounds in which the keys that stay were written last. */
function roundsOf(store: Store<string>, keys: readonly string[]): number[] {
  return store.getMany(keys).map((value, i) => roundOf(keys[i], value));
}

function roundOf(key: string, value: string | undefined): number {
  assert.ok(String(value).startsWith(`${key}=`), `${key} has ${value}`);
  return Number(String(value).slice(key.length + 1));
}

/**
 * The keys come in order, none twice; every key that stays is among them, with a value that it had
 * between the beginning and the end of the scan.
 */
function assertConsistent(store: Store<string>, stay: readonly string[], reverse: boolean): void {
  const before = roundsOf(store, stay);
  const found = store.scan({ gte: 'key ', lt: 'key z', reverse }).nextMany(1_000_000);
  const after = roundsOf(store, stay);
  for (let i = 1; i < found.length; i++) {
    const [low, high] = reverse ? [i, i - 1] : [i - 1, i];
    assert.ok(found[low][0] < found[high][0], `${found[low][0]} and ${found[high][0]}`);
  }
  const values = new Map(found as [string, string][]);
  stay.forEach((key, i) => {
    const round = roundOf(key, values.get(key));
    const fine = before[i] <= round && round <= after[i];
    assert.ok(fine, `${key} was ${before[i]}, scanned ${round}, then ${after[i]}`);
  });
  for (const [key, value] of values) roundOf(key, value);
}

const SHAPES: readonly OpenOptions[] = [
  { index: { kind: 'chime', span: 8, neighbourhood: 4, fanout: 4 } },
  { index: { kind: 'hstore', buckets: 64, log: 64 } },
  { index: { kind: 'hstore', buckets: 64, log: 2 } },
];

for (const options of SHAPES.slice(0, rounds(2, SHAPES.length))) {
  const shape = JSON.stringify(options);
  test(`scans while other threads write: ${shape}`, (t) => scanBesideWriters(t, options));
}

/** Keys that stay come once, with a current value. */
async function scanBesideWriters(t: Scope, options: OpenOptions): Promise<void> {
  const store = freshStore(t, 'memory', options) as Store<string>;
  const all = Array.from({ length: 1200 }, (_, i) => name(i));
  const stay = all.filter((_, i) => i % 3 === 0);
  store.setMany(stay.map((key) => [key, `${key}=0`] as const));
  const writers = [0, 1].map((writer) => {
    const mine = (_: string, i: number) => i % 2 === writer;
    return inThread({
      handle: store.handle,
      store: store.name,
      increments: 0,
      prefix: '',
      inserts: 0,
      churn: {
        stay: stay.filter(mine),
        come: all.filter((_, i) => i % 3 !== 0).filter(mine),
        roundsMax: ROUNDS_MAX,
      },
    });
  });
  try {
    // Both have begun.
    for (let tries = 0; roundsOf(store, stay.slice(0, 2)).includes(0); tries++) {
      assert.ok(tries < TRIES_MAX, 'the writers do not begin');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const start = roundsOf(store, stay);
    const allChanged = () => roundsOf(store, stay).every((round, i) => round > start[i]);
    for (let i = 0; i < SCANS || !allChanged(); i++) {
      assert.ok(i < SCANS_MAX, 'the writers went on meanwhile');
      assertConsistent(store, stay, i % 2 === 1);
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    store.set('stop', '');
  }
  for (const done of await Promise.all(writers)) assert.ok(Number(done) < ROUNDS_MAX);
  assertConsistent(store, stay, false);
  assert.deepEqual(checkSync(store.handle).problems, []);
}
