import assert from 'node:assert/strict';
import { type Condition, type Index, REFUSED, REPLACED } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/request.ts';
import { Prng } from '../../random/prng.ts';
import type { Fabric } from '../../verbs/index.ts';
import { type ByHand, foundText, kindsOf, requestFor, traced } from './by-hand.ts';

const KEYS = 120;

type Client = ByHand<Index>;

function oldValue(outcome: number, request: Request): string | undefined {
  return outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0)
    ? foundText(request)
    : undefined;
}

/** What a write came to, and the verbs of each of its round trips. */
function byGenerator(client: Client, key: string, value: string, how: Condition, expected: number) {
  const request = requestFor(client, key, value);
  const { trips, value: outcome } = traced(
    client.pool.fabric,
    client.index.write(request, how, expected),
  );
  return { outcome, old: oldValue(outcome, request), trips };
}

/** The same, and whether the first attempt told. */
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
  const first = client.index.writeOnce?.(request, how, expected, recording);
  const outcome = first ?? client.pool.run(client.index.write(request, how, expected));
  return { outcome, old: oldValue(outcome, request), trips, isFirst: first !== undefined };
}

/**
 * Does the same random writes to two stores, by `write` in the one and by `writeOnce` in the other,
 * which falls back on `write`: the outcomes have to be the same, and where the first attempt tells,
 * the verbs of each round trip as well. Returns how many writes it told of. Nothing is wrong with
 * the second store in the end, and no block of a write that was given up is lost.
 */
export function assertSameAtOnce(
  plain: Client,
  fast: Client,
  writes: number,
  between: (prng: Prng) => void = () => {},
): number {
  const prng = Prng.fromSeed(3);
  let first = 0;
  for (let i = 0; i < writes; i++) {
    const key = `key ${prng.below(KEYS)}`;
    // ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION, EXCHANGE; some values are chained.
    const how = prng.below(5) as Condition;
    const value = prng.below(40) === 0 ? 'long '.repeat(4000) : `value ${i}`;
    const expected = 1 + prng.below(3);
    const isRemoval = prng.below(8) === 0;
    for (const { pool } of [plain, fast]) pool.enter();
    between(prng);
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
  assertWhole(fast);
  return first;
}

function assertWhole({ pool, index }: Client): void {
  pool.run(pool.reclamation.goOffline());
  for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
  const lost = pool.run(pool.allocator.claimed(index.catalog, pool.reclamation.waiting()));
  pool.run(index.eachReachable((address) => lost.delete(address)));
  assert.deepEqual([...lost.keys()], []);
}
