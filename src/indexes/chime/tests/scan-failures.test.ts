import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metImpatiently } from '../../../store/tests/support/by-hand.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

/** Steps of scans that fail: who goes on all the same misses nothing. */
/** All records are read by a round trip of their own. */
const SHAPE = { span: 8, neighbourhood: 4, fanout: 4, inlineBytes: 0 };
const KEYS = Array.from({ length: 60 }, (_, i) => `key ${100 + i}`);

/** With the keys, and with a memory of the whole tree. */
function filled(client: Client): Client {
  const { pool, index } = client;
  for (const key of KEYS) pool.run(index.write(requestFor(client, key, key), ALWAYS));
  const scan = index.scan();
  while (!scan.done) pool.run(scan.next(() => {}));
  return client;
}

/** Runs an operation up to its verbs of a number, which are not executed: it fails there. */
function failing<T>({ pool }: Client, operation: Operation<T>, trip: number, how: 'throw' | 'end') {
  const lost = new Error('the verbs were lost');
  let step = operation.next();
  for (let number = 0; number < trip && !step.done; number++) {
    pool.fabric.execute(step.value as Batch);
    step = operation.next();
  }
  assert.ok(!step.done, `an operation of fewer than ${trip} round trips`);
  if (how === 'end') operation.return(undefined as T);
  else assert.throws(() => operation.throw(lost), lost);
}

const RANGES: [string, KeyRange][] = [
  ['forward', {}],
  ['in reverse', { reverse: true }],
  ['with a limit', { limit: 23 }],
  ['a leaf at a time', { width: 1 }],
];

for (const [name, range] of RANGES) {
  test(`a step that fails is taken again by the next one, ${name}`, (t) => {
    const client = filled(clientOf(t, SHAPE));
    const ordered = range.reverse ? KEYS.toReversed() : KEYS;
    for (const how of ['throw', 'end'] as const) {
      for (const trip of [0, 1]) {
        const scan = client.index.scan(range);
        const met: string[] = [];
        while (!scan.done) {
          failing(
            client,
            scan.next(() => assert.fail('nothing was read')),
            trip,
            how,
          );
          client.pool.run(scan.next((request) => met.push(foundText(request))));
        }
        assert.deepEqual(met, ordered.slice(0, range.limit));
      }
    }
  });
}

test('a visitor that throws meets the records of its step again', (t) => {
  const client = filled(clientOf(t, SHAPE));
  const { pool, index } = client;
  const met = metImpatiently(pool, index.scan({ limit: 40 }));
  assert.deepEqual(met, KEYS.slice(0, 40));
});

test('a count counts what a failed step did not', (t) => {
  const client = filled(clientOf(t, SHAPE));
  const bound = (i: number) => ({ key: Buffer.from(KEYS[i]), inclusive: true });
  const scan = client.index.scan({ lower: bound(10), upper: bound(49), width: 2 });
  let count = 0;
  // The range begins within a leaf, whose records are read.
  failing(client, scan.countNext(), 1, 'throw');
  while (!scan.done) {
    failing(client, scan.countNext(), 0, 'throw');
    count += client.pool.run(scan.countNext());
  }
  assert.equal(count, 40);
});
