import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { traced } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { Batch } from '../../../verbs/index.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { fingerprintOf, SLOTS_AT } from '../geometry.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

/** Counts by slots (`countNext`) against the keys, with other clients' changes between steps. */
const SHAPE = { span: 8, neighbourhood: 4, fanout: 4 };

const nameOf = (i: number) => `key ${String(i).padStart(4, '0')}`;

function boundAt(i: number, inclusive: boolean) {
  return { key: new Uint8Array(Buffer.from(nameOf(i))), inclusive };
}

function put(client: Client, key: string): void {
  client.pool.run(client.index.write(requestFor(client, key, 'v'), ALWAYS));
}

function remove(client: Client, key: string): boolean {
  return client.pool.run(client.index.remove(requestFor(client, key)));
}

/** `between` is called after every step. */
function counted({ pool, index }: Client, range: KeyRange, between = () => {}): number {
  const scan = index.scan(range);
  let count = 0;
  while (!scan.done) {
    count += pool.run(scan.countNext());
    between();
  }
  return count;
}

test('a count that begins or ends within a leaf counts no key outside', (t) => {
  const client = clientOf(t, SHAPE);
  for (let i = 0; i < 60; i++) put(client, nameOf(i));
  for (let from = 0; from < 60; from++) {
    for (const reverse of [false, true]) {
      const range = { lower: boundAt(from, true), upper: boundAt(from + 9, false), reverse };
      assert.equal(counted(client, range), Math.min(9, 60 - from), `${from} ${reverse}`);
    }
  }
});

test('a count of a range reads only what its slots leave open', (t) => {
  const client = clientOf(t, {});
  for (let i = 0; i < 4000; i++) put(client, nameOf((i * 77) % 4000));
  // Ways are remembered from here on.
  assert.equal(counted(client, {}), 4000);
  let read = 0;
  for (let i = 0; i < 40; i++) {
    const range = { lower: boundAt(90 * i, true), upper: boundAt(90 * i + 150, true) };
    const scan = client.index.scan({ ...range, reverse: i % 2 === 0 });
    let count = 0;
    while (!scan.done) {
      const { trips, value } = traced(client.pool.fabric, scan.countNext());
      assert.ok(trips.length <= 2);
      read += trips[1]?.split(' ').length ?? 0;
      count += value;
    }
    assert.equal(count, 151);
  }
  // Each of the two ends has some three hints' worth of a leaf of about 38 keys to itself.
  assert.ok(read > 0 && read < 40 * 10, `${read} records for 40 counts`);
});

for (const reverse of [false, true]) {
  test(`what was passed is not counted again in a merged leaf, reverse: ${reverse}`, (t) => {
    for (let steps = 1; steps <= 8; steps++) {
      const reader = clientOf(t, SHAPE);
      const writer = clientOf(t, SHAPE, reader.handle);
      const keys = Array.from({ length: 60 }, (_, i) => nameOf(i));
      for (const key of keys) put(writer, key);
      const scan = reader.index.scan({ reverse, width: 1 });
      for (let step = 0; step < steps; step++) reader.pool.run(scan.countNext());
      const position = Buffer.from(scan.position ?? []).toString();
      const left = keys.filter((key, i) => i % 6 === 0 || !remove(writer, key));
      assert.ok(writer.index.resizes.merges > 0);
      let count = 0;
      while (!scan.done) count += reader.pool.run(scan.countNext());
      const ahead = left.filter((key) => (reverse ? key < position : key >= position));
      assert.equal(count, ahead.length, `from ${position} on`);
    }
  });
}

/** Keys that have home and fingerprint in common with one another, in ascending order. */
function alikeKeys(client: Client, count: number): string[] {
  const classes = new Map<number, string[]>();
  const { geometry } = client.index.tree;
  for (let i = 0; ; i++) {
    const key = `like ${String(i).padStart(6, '0')}`;
    const { hash } = requestFor(client, key);
    const name = geometry.homeOf(hash.h2) * 256 + fingerprintOf(hash.h1);
    const keys = classes.get(name) ?? [];
    keys.push(key);
    if (keys.length === count) return keys;
    classes.set(name, keys);
  }
}

test('a key that comes back while its leaf is being read is counted once', (t) => {
  const client = clientOf(t, SHAPE);
  const [first, second] = alikeKeys(client, 2);
  put(client, first);
  put(client, second);
  const counting = client.index.scan().countNext();
  // The leaf's lines may be seen in any order: here its slots from the last one on.
  const { value: batch } = counting.next() as { value: Batch };
  const { leafBytes } = client.index.tree.geometry;
  for (let at = leafBytes - 8; at >= 0; at -= 8) {
    const word = new Batch().read(batch.address[0] + at, 8, batch.scratch[0], batch.offset[0] + at);
    client.pool.fabric.execute(word);
    const [low, high] = batch.scratch[0].i32.subarray((batch.offset[0] + at) >> 2);
    if (at < SLOTS_AT || (low === 0 && high === 0) || !remove(client, first)) continue;
    // The second key has been read where it was; it comes back in the slot of the first.
    remove(client, second);
    put(client, second);
  }
  client.pool.fabric.execute(
    new Batch().read(batch.address[1], 8, batch.scratch[1], batch.offset[1]),
  );
  let step = counting.next();
  assert.ok(!step.done, 'the records of a doubtful leaf are read');
  while (!step.done) {
    client.pool.fabric.execute(step.value);
    step = counting.next();
  }
  assert.equal(step.value, 1);
});

interface Change {
  key: number;
  removes: boolean;
}

const KEYS = 40;
const changes = fc.array(fc.record<Change>({ key: fc.nat(2 * KEYS - 1), removes: fc.boolean() }), {
  minLength: 20,
  maxLength: 90,
});

function apply(client: Client, keys: readonly string[], change: Change): void {
  if (change.removes) remove(client, keys[change.key]);
  else put(client, keys[change.key]);
}

/**
 * Keys that nobody touches are counted once; of the others, none more than once. Half of the keys
 * have one home and one fingerprint, so that most leaves do not tell by their slots.
 */
function countsWhatIsThere(
  scope: Scope,
  keys: readonly string[],
  first: readonly Change[],
  during: readonly Change[],
  { reverse, width, from, to }: { reverse: boolean; width: number; from: number; to: number },
): void {
  const reader = clientOf(scope, SHAPE);
  const writer = clientOf(scope, SHAPE, reader.handle);
  for (let i = 0; i < keys.length; i += 2) put(writer, keys[i]);
  for (const change of first) apply(writer, keys, change);
  const bytes = (i: number) => new Uint8Array(Buffer.from(keys[i % keys.length]));
  const range: KeyRange = {
    lower: from < keys.length ? { key: bytes(from), inclusive: true } : undefined,
    upper: to < keys.length ? { key: bytes(to), inclusive: false } : undefined,
    reverse,
    width,
  };
  const inRange = (i: number) =>
    (from >= keys.length || i >= from) && (to >= keys.length || i < to);
  const isThere = (i: number) => reader.pool.run(reader.index.search(requestFor(reader, keys[i])));
  const touched = new Set(during.map(({ key }) => key));
  const numbers = keys.map((_, i) => i).filter(inRange);
  const stable = numbers.filter((i) => !touched.has(i) && isThere(i)).length;
  const left = [...during];
  const count = counted(reader, range, () => {
    for (const change of left.splice(0, 12)) apply(writer, keys, change);
  });
  const most = stable + numbers.filter((i) => touched.has(i)).length;
  assert.ok(count >= stable && count <= most, `${count} keys, not ${stable} to ${most}`);
  assert.equal(counted(reader, range), numbers.filter(isThere).length);
  assert.deepEqual(checked(reader).problems, []);
}

test('counts agree with the keys while others insert, remove, split and merge', (t) => {
  const alike = alikeKeys(clientOf(t, SHAPE), KEYS);
  const keys = [...Array.from({ length: KEYS }, (_, i) => nameOf(i)), ...alike].sort();
  const how = fc.record({
    reverse: fc.boolean(),
    width: fc.integer({ min: 1, max: 3 }),
    from: fc.nat(3 * KEYS),
    to: fc.nat(3 * KEYS),
  });
  const property = fc.property(changes, changes, how, (first, during, manner) => {
    const endings: (() => void)[] = [];
    try {
      const scope = { after: (action: () => void) => endings.push(action) } as unknown as Scope;
      countsWhatIsThere(scope, keys, first, during, manner);
    } finally {
      for (const end of endings.reverse()) end();
    }
  });
  fc.assert(property, { numRuns: 60, includeErrorInReport: true, interruptAfterTimeLimit: 20_000 });
});
