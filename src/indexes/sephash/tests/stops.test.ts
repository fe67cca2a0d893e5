import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  foundText,
  requestFor,
  sepHashByHand,
} from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, IF_PRESENT, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import type { SepHashIndex } from '../sephash.ts';

type Client = ByHand<SepHashIndex>;

/** 8 entries; a MainSegment of more than 8 is split: after 4 splits depth bits are refilled. */
const SHAPE = { segmentBytes: 64, ratio: 1, initialDepth: 0, maxDepth: 8 };

/** Where a writer stops: so many round trips are done, and so many verbs of the next. */
interface Stop {
  trips: number;
  verbs: number;
}

/** Runs the operation up to a stop; the batch at which it stands, or none when it ended before. */
function runTo(
  { pool }: Client,
  operation: Operation<unknown>,
  { trips, verbs }: Stop,
): Batch | undefined {
  for (let trip = 0; ; trip++) {
    const step = operation.next();
    if (step.done) return undefined;
    const batch = step.value;
    if (trip === trips) {
      const { length } = batch;
      if (verbs >= length) return undefined;
      batch.length = verbs;
      pool.fabric.execute(batch);
      batch.length = length;
      return batch;
    }
    pool.fabric.execute(batch);
  }
}

/** A pool in which the next write of `before` keys merges or splits, and two clients of it. */
function stage(scope: Scope, before: number, more: object): { writer: Client; other: Client } {
  const sephash = { ...SHAPE, ...more };
  const writer = sepHashByHand(scope, { sephash });
  for (let i = 0; i < before; i++) {
    writer.pool.run(writer.index.write(requestFor(writer, `k${i}`, `v${i}`), ALWAYS));
  }
  const other = sepHashByHand(scope, { sephash, handle: writer.handle });
  other.index.table.patience = { polls: 1, microseconds: 0 };
  return { writer, other };
}

function get(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  return client.pool.run(client.index.search(request)) ? foundText(request) : undefined;
}

/** What others do where somebody has stopped: nothing may be lost or come back. */
function exercise(client: Client, before: number, pending: string): void {
  const { pool, index } = client;
  for (let i = 0; i < before; i++) assert.equal(get(client, `k${i}`), `v${i}`, `k${i}`);
  const seen = get(client, pending);
  const inserting = index.write(requestFor(client, pending, 'mine'), IF_ABSENT);
  assert.equal(pool.run(inserting), seen === undefined ? INSERTED : REFUSED);
  const value = seen ?? 'mine';
  assert.equal(get(client, pending), value);
  const updating = index.write(requestFor(client, 'k1', 'updated'), IF_PRESENT);
  assert.equal(pool.run(updating), REPLACED);
  assert.equal(pool.run(index.remove(requestFor(client, 'k2'))), true);
  for (let i = 0; i < 20; i++) {
    pool.run(index.write(requestFor(client, `more ${i}`, 'x'), ALWAYS));
  }
  assert.equal(get(client, pending), value);
  assert.equal(get(client, 'k1'), 'updated');
  assert.equal(get(client, 'k2'), undefined);
  for (let i = 3; i < before; i++) assert.equal(get(client, `k${i}`), `v${i}`, `k${i} later`);
}

function problemsOf({ pool, index }: Client): string[] {
  const problems: string[] = [];
  const sink = { problem: (text: string) => problems.push(text), reachable() {}, progress() {} };
  pool.run(index.check(sink));
  return problems;
}

/** The first number of keys with which the next put does what is asked for. */
function keysBefore(scope: Scope, more: object, what: 'merges' | 'splits', times: number): number {
  const { writer } = stage(scope, 0, more);
  for (let i = 0; ; i++) {
    const before = writer.index.counters[what];
    writer.pool.run(writer.index.write(requestFor(writer, `k${i}`, `v${i}`), ALWAYS));
    const after = writer.index.counters[what];
    if (after > before && after >= times) return i;
  }
}

const PLANS = [
  { name: 'merge', what: 'merges', times: 1, more: { ratio: 8 } },
  { name: 'merge into a MainSegment', what: 'merges', times: 2, more: { ratio: 8 } },
  { name: 'split', what: 'splits', times: 1, more: {} },
  { name: 'split that refills depth bits', what: 'splits', times: 8, more: {} },
] as const;

for (const { name, what, times, more } of PLANS) {
  for (const goesOn of [false, true]) {
    const then = goesOn ? 'goes on later' : 'is never heard of again';
    test(`a writer that stops at any verb of a ${name} and ${then}`, (t) => {
      const before = keysBefore(t, more, what, times);
      const pending = `k${before}`;
      let stops = 0;
      for (let trips = 0, running = true; running; trips++) {
        running = false;
        for (let verbs = 0; ; verbs++) {
          const { writer, other } = stage(t, before, more);
          const writing = writer.index.write(requestFor(writer, pending, `v${before}`), ALWAYS);
          const stopped = runTo(writer, writing, { trips, verbs });
          if (stopped === undefined) break;
          running = true;
          stops++;
          exercise(other, before, pending);
          if (goesOn) {
            resume(writer, writing, stopped, verbs);
            for (let i = 3; i < before; i++) assert.equal(get(writer, `k${i}`), `v${i}`);
            assert.equal(get(writer, 'k2'), undefined);
            assert.equal(get(other, pending), get(writer, pending));
          }
          assert.deepEqual(problemsOf(other), []);
        }
      }
      assert.ok(stops > 8, `${stops} stops`);
    });
  }
}

test('a split that nobody has told the directory of outlives merges of its first half', (t) => {
  const before = keysBefore(t, {}, 'splits', 1);
  const { writer, other } = stage(t, before, {});
  const writing = writer.index.write(requestFor(writer, `k${before}`, `v${before}`), ALWAYS);
  for (let batch = writing.next().value as Batch; ; batch = writing.next().value as Batch) {
    writer.pool.fabric.execute(batch);
    // The halves and the metadata that publish them: the writer dies before it goes on.
    if (batch.length === 6) break;
  }
  const isLow = (key: string) => (requestFor(other, key).hash.h1 & 1) === 0;
  for (let i = 0; other.index.counters.merges < 3; i++) {
    const key = `more ${i}`;
    if (isLow(key)) other.pool.run(other.index.write(requestFor(other, key, 'x'), ALWAYS));
  }
  const late = sepHashByHand(t, { sephash: SHAPE, handle: writer.handle });
  for (let i = 0; i <= before; i++) {
    assert.equal(get(late, `k${i}`), `v${i}`);
    assert.equal(get(other, `k${i}`), `v${i}`);
  }
  assert.deepEqual(problemsOf(late), []);
});

/** Executes the rest of the batch at which the operation stands, then the rest of it. */
function resume(
  { pool }: Client,
  operation: Operation<unknown>,
  batch: Batch,
  verbs: number,
): void {
  for (const row of ['kind', 'address', 'bytes', 'offset'] as const) {
    batch[row].copyWithin(0, verbs, batch.length);
  }
  batch.scratch.splice(0, verbs);
  batch.length -= verbs;
  pool.fabric.execute(batch);
  for (let step = operation.next(); !step.done; step = operation.next()) {
    pool.fabric.execute(step.value);
  }
}
