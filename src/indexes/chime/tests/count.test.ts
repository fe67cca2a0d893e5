import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

/** Counts by pictures (`countNext`) against the keys, with other clients' changes between steps. */
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

for (const reverse of [false, true]) {
  test(`what was passed is not counted again in a merged leaf, reverse: ${reverse}`, (t) => {
    for (let steps = 1; steps <= 8; steps++) {
      const reader = clientOf(t, SHAPE);
      const writer = clientOf(t, SHAPE, reader.handle);
      const keys = Array.from({ length: 60 }, (_, i) => nameOf(i));
      // Not in ascending order, which leaves fewer leaves.
      for (let i = 0; i < keys.length; i++) put(writer, keys[(7 * i) % keys.length]);
      const scan = reader.index.scan({ reverse, width: 1 });
      for (let step = 0; step < steps; step++) reader.pool.run(scan.countNext());
      const position = Buffer.from(scan.position ?? []).toString();
      const left = keys.filter((key, i) => i % 6 === 0 || !remove(writer, key));
      assert.ok(writer.index.counters.merges > 0);
      let count = 0;
      while (!scan.done) count += reader.pool.run(scan.countNext());
      const ahead = left.filter((key) => (reverse ? key < position : key >= position));
      assert.equal(count, ahead.length, `from ${position} on`);
    }
  });
}

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

/** Keys that no call touches are counted once; of the others, none more than once. */
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

test('counts agree with the keys while others insert, remove, split and merge', () => {
  const keys = Array.from({ length: 2 * KEYS }, (_, i) => nameOf(i));
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
  fc.assert(property, {
    numRuns: rounds(25, 300),
    includeErrorInReport: true,
    interruptAfterTimeLimit: rounds(20_000, 600_000),
  });
});
