import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../random/prng.ts';
import {
  type ByHand,
  foundText,
  kindsOf,
  requestFor,
  shardByHand,
  traced,
} from '../../store/test-support/by-hand.ts';
import type { Fabric } from '../../verbs/index.ts';
import { type Condition, REFUSED, REPLACED } from '../contract.ts';
import { eachReachable } from './reachable.ts';
import { resize } from './resize.ts';
import type { ShardIndex } from './shard.ts';

type Client = ByHand<ShardIndex>;

const SHARD = { buckets: 1, level1: 8, level2: 2, threshold: 100, resizes: 9 };
const WRITES = 4000;
const KEYS = 120;

/** What a write came to, and the verbs of each of its round trips. */
interface Done {
  outcome: number;
  old: string | undefined;
  trips: string[];
}

function oldValue(outcome: number, request: ReturnType<Client['index']['newRequest']>) {
  return outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0)
    ? foundText(request)
    : undefined;
}

function byGenerator(client: Client, key: string, value: string, how: Condition, expected: number) {
  const request = requestFor(client, key, value);
  const { trips, value: outcome } = traced(
    client.pool.fabric,
    client.index.write(request, how, expected),
  );
  return { outcome, old: oldValue(outcome, request), trips } satisfies Done;
}

/** Undefined for the trips where the write took more than the first attempt. */
function atOnce(client: Client, key: string, value: string, how: Condition, expected: number) {
  const { fabric } = client.pool;
  const trips: string[] = [];
  const recording: Fabric = {
    ...fabric,
    traffic: fabric.traffic,
    execute(batch) {
      trips.push(kindsOf(batch));
      fabric.execute(batch);
    },
  };
  const request = requestFor(client, key, value);
  const first = client.index.writeOnce(request, how, expected, recording);
  const outcome = first ?? client.pool.run(client.index.write(request, how, expected));
  return { outcome, old: oldValue(outcome, request), trips, isFirst: first !== undefined };
}

test('writeOnce executes what write yields, or leaves the request to it', (t) => {
  const [plain, fast] = [0, 1].map(() => shardByHand(t, { shard: SHARD }));
  const prng = Prng.fromSeed(3);
  for (const { index } of [plain, fast]) index.table.syncEvery = Number.POSITIVE_INFINITY;
  let first = 0;
  for (let i = 0; i < WRITES; i++) {
    const key = `key ${prng.below(KEYS)}`;
    // ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION, EXCHANGE; some values are chained.
    const how = prng.below(5) as Condition;
    const value = prng.below(40) === 0 ? 'long '.repeat(4000) : `value ${i}`;
    const expected = 1 + prng.below(3);
    const isRemoval = prng.below(8) === 0;
    const grows = prng.below(500) === 0;
    for (const { pool, index } of [plain, fast]) {
      pool.enter();
      if (grows) {
        pool.run(resize(index.table));
        pool.run(index.table.load());
      }
    }
    if (isRemoval) {
      for (const client of [plain, fast]) {
        client.pool.run(client.index.remove(requestFor(client, key)));
      }
    } else {
      const one = byGenerator(plain, key, value, how, expected);
      const { isFirst, ...other } = atOnce(fast, key, value, how, expected);
      assert.equal(other.outcome, one.outcome, `write ${i}`);
      assert.equal(other.old, one.old, `write ${i}`);
      if (isFirst) assert.deepEqual(other.trips, one.trips, `write ${i}`);
      if (isFirst) first++;
    }
    for (const { pool } of [plain, fast]) pool.exit();
  }
  assert.ok(first > WRITES / 4, `${first} at once`);
  assert.ok(first < (3 * WRITES) / 4, `only ${WRITES - first} left to write`);
  assertWhole(fast);
});

/** Nothing is wrong, and no block of a write that was given up is lost. */
function assertWhole({ pool, index }: Client): void {
  pool.run(pool.reclamation.goOffline());
  for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
  const lost = pool.run(pool.allocator.claimed(index.catalog, pool.reclamation.waiting()));
  pool.run(eachReachable(index.partitions, (address) => lost.delete(address)));
  assert.deepEqual([...lost.keys()], []);
}

test('a report that is due is left to write', (t) => {
  const client = shardByHand(t, { shard: SHARD });
  const { pool, index } = client;
  pool.run(pool.allocator.refill(pool.allocator.sizeClass(index.catalog, 1)));
  index.table.syncEvery = 2;
  const put = (key: string) => {
    const request = requestFor(client, key, 'value');
    const outcome = index.writeOnce(request, 0, 0, pool.fabric);
    if (outcome === undefined) pool.run(index.write(request, 0));
    return outcome !== undefined;
  };
  assert.deepEqual(['a', 'b'].map(put), [true, false]);
  assert.equal(index.table.unreported, 0, 'it has been reported');
});
