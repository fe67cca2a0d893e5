import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historyOf } from '../../../pool/bound.ts';
import { requestFor } from '../../tests/support/by-hand.ts';
import { freshStore } from '../../tests/support/pools.ts';
import { History, LFU, LRU } from '../experts.ts';
import { counting } from './support/counting.ts';

const ADAPTIVE = { maxRecords: 100, eviction: 'adaptive' } as const;

test('an expert whose record was used meanwhile is asked again', (t) => {
  const time = { now: 1_700_000_000_000 };
  const store = freshStore(t, 'memory', { ...ADAPTIVE, clock: () => time.now++ });
  // LRU names the old ones, LFU the young ones.
  for (const key of ['old 1', 'old 2']) {
    store.set(key, 'v');
    for (let use = 0; use < 10; use++) store.get(key);
  }
  for (const key of ['young 1', 'young 2']) store.set(key, 'v');
  const client = counting(t, store);
  const { pool, bounded } = client;
  const experts = [LRU, LFU, LFU] as const;
  let asked = 0;
  t.mock.method(bounded.experts, 'choose', () => experts[asked++]);
  const sampling = bounded.newSampling();
  const evict = (key: string, use?: () => void) => {
    const victim = pool.run(bounded.findVictim(sampling, undefined));
    assert.ok(victim !== undefined);
    assert.ok(victim.isOf(requestFor(client, key)), `not ${key}`);
    use?.();
    return pool.run(victim.remove());
  };
  const use = () => {
    store.get('old 1');
  };
  assert.equal(evict('old 1', use), false);
  assert.equal(evict('old 2'), true);
  assert.equal(evict('young 1'), true);
});

test('the history knows a key whose eviction this client has not counted yet', (t) => {
  const client = counting(t, freshStore(t, 'memory', ADAPTIVE));
  const { pool, bounded } = client;
  const start = historyOf(pool.membership.clientsMax, bounded.bound);
  assert.ok(start !== undefined);
  const history = new History(pool, start, bounded.bound.historyBits);
  const key = requestFor(client, 'k');
  const ages = [-history.length - 1, -history.length, -1, 0, 1, history.length, history.length + 1];
  const found = ages.map((age) => {
    pool.run(history.note(key, LFU, 5000));
    return pool.run(history.recall(key, 5000 + age))?.age;
  });
  assert.deepEqual(found, [undefined, 0, 0, 0, 1, history.length, undefined]);
});
