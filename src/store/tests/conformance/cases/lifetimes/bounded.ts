import assert from 'node:assert/strict';
import { Prng } from '../../../../../random/prng.ts';
import type { AsyncStore, BoundStats, OpenOptions, Value } from '../../../../api.ts';
import { rejectsCode } from '../../../support/codes.ts';
import { numbered } from '../../../support/pools.ts';
import { type Case, collect, cramped, type Suite } from '../suite.ts';

const START = 1_700_000_000_000;
const LIMIT = 100;

/** A case's time, a millisecond later with each look at it, and its chances. */
interface World {
  now: number;
}

async function boundOf(s: AsyncStore<Value>): Promise<BoundStats> {
  const { bound } = await s.stats();
  assert.ok(bound);
  return bound;
}

/** The clients' counts equal the contents of the tables. */
async function assertCounted(s: AsyncStore<Value>): Promise<void> {
  const { records, bound } = await s.stats();
  assert.equal(bound?.records, records);
}

/**
 * Now and then a sample takes a key that a policy should keep: of 25 keys up to four were lost in a
 * thousand evictions. Choice by chance would keep none of them.
 */
async function assertKept(
  s: AsyncStore<Value>,
  keys: readonly string[],
  value: string,
): Promise<void> {
  const found = (await s.getMany(keys)).filter((each) => each !== undefined);
  assert.ok(found.length >= keys.length / 2, `${found.length} of ${keys.length} are left`);
  for (const each of found) assert.equal(each, value);
}

export function boundedCases({ check, manifest, local }: Suite): void {
  const index = cramped(manifest);
  const bounded = (
    title: string,
    options: OpenOptions,
    body: (given: Case, world: World) => Promise<void>,
  ): void => {
    const world = { now: START };
    const prng = Prng.fromSeed(16);
    const clock = () => world.now++;
    const chance = () => prng.nextDouble();
    check(title, (given) => body(given, world), { ...index, clock, chance, ...options });
  };

  for (const eviction of ['lru', 'lfu', 'adaptive'] as const) {
    const full = { maxRecords: LIMIT, eviction };
    bounded(
      `${eviction}: a full store evicts one record for each that comes`,
      full,
      async ({ s }) => {
        const keys = numbered('k', 5 * LIMIT);
        for (const key of keys.slice(0, LIMIT)) await s.set(key, key);
        assert.equal((await boundOf(s)).evictions, 0);
        assert.equal(await s.size(), LIMIT);
        for (const key of keys.slice(LIMIT)) {
          await s.set(key, key);
          assert.equal(await s.get(key), key, 'what was just written stays');
        }
        assert.equal(await s.size(), LIMIT);
        assert.equal((await boundOf(s)).evictions, 4 * LIMIT);
        await assertCounted(s);
        for await (const [key, value] of s.entries()) assert.equal(value, key);
        // Emptied and filled again, it holds as much.
        await s.clear();
        await assertCounted(s);
        for (const key of keys) await s.set(key, 'again');
        assert.equal(await s.size(), LIMIT);
        await assertCounted(s);
      },
    );
  }

  const lru = { maxRecords: LIMIT, eviction: 'lru' } as const;

  bounded('lru spares what was read', lru, async ({ s }) => {
    const kept = numbered('kept', LIMIT / 4);
    for (const key of kept) await s.set(key, 'v');
    for (const [i, key] of numbered('k', 10 * LIMIT).entries()) {
      await s.set(key, 'v');
      if (i % 4 === 0) for (const each of kept) await s.get(each);
    }
    await assertKept(s, kept, 'v');
  });

  bounded(
    'lfu spares what was read often',
    { maxRecords: LIMIT, eviction: 'lfu' },
    async ({ s }) => {
      const kept = numbered('kept', LIMIT / 4);
      for (const key of kept) await s.set(key, 'v');
      for (let read = 0; read < 8; read++) await s.getMany(kept);
      // A record that is replaced keeps its uses.
      await s.setMany(kept.map((key) => [key, 'w'] as const));
      for (const key of numbered('k', 10 * LIMIT)) await s.set(key, 'v');
      await assertKept(s, kept, 'w');
    },
  );

  bounded('several clients keep to one bound', lru, async ({ s, attach }) => {
    const others = [s, attach(), attach()];
    const keys = numbered('k', 10 * LIMIT);
    for (const [i, key] of keys.entries()) {
      await others[i % 3].set(key, key);
      if (i % 7 === 0) await others[(i + 1) % 3].delete(key);
    }
    assert.ok((await s.size()) <= LIMIT + others.length);
    for (let i = 0; i < 3 * LIMIT; i++) await others[i % 3].set(`more ${i}`, 'v');
    const size = await s.size();
    assert.ok(size <= LIMIT + others.length && size > LIMIT - 64, `${size} records`);
    for (const each of others) await assertCounted(each);
  });

  bounded('writes in flight together evict what they add, and no more', lru, async ({ s }) => {
    for (const key of numbered('k', LIMIT)) await s.set(key, key);
    await s.setMany(numbered('l', 3 * LIMIT).map((key) => [key, key] as const));
    const size = await s.size();
    assert.ok(size <= LIMIT && size >= LIMIT - 2, `${size} records`);
    assert.equal((await boundOf(s)).evictions, 4 * LIMIT - size);
    await assertCounted(s);
  });

  bounded('every kind of write is counted', lru, async ({ s }) => {
    for (let i = 0; i < 2 * LIMIT; i++) {
      await s.insert(`i${i}`, 'v');
      await s.increment(`n${i % 50}`);
      await s.incrementWithin(`m${i % 50}`, 1, { max: 2 });
      await s.append(`a${i % 30}`, 'text'.repeat(20));
      await s.swap(`s${i % 20}`, 'v'.repeat(i));
      await s.namespace('space:').set(`${i % 40}`, 'v');
      await s.changeState(`c${i % 10}`, () => ({ result: 0, next: i % 3 ? 'x'.repeat(i) : null }));
      await s.write(`w${i}`, 'v', { previous: true });
      await s.compareAndSet(
        `w${i}`,
        (await s.getEntry(`w${i}`))?.version ?? 0,
        'longer'.repeat(99),
      );
      await s.update(`i${i}`, 'x');
      if (i % 3 === 0) await s.delete(`i${i}`);
      if (i % 5 === 0) await s.take(`w${i}`);
      if (i % 7 === 0) await s.expire(`i${i}`, { ttlMs: 1e9 });
    }
    assert.equal((await s.increment('n1')) >= 1, true);
    await assertCounted(s);
    assert.ok((await s.size()) <= LIMIT);
  });

  bounded('what has expired goes first', lru, async ({ s }, world) => {
    for (const key of numbered('old', LIMIT / 2)) await s.set(key, 'v', { ttlMs: 1e6 });
    for (const key of numbered('stays', LIMIT / 2)) await s.set(key, 'v');
    world.now += 1e6;
    for (const key of numbered('new', LIMIT / 4)) await s.set(key, 'v');
    // A sample that met no expired record has taken another one.
    const { evictions } = await boundOf(s);
    assert.ok(evictions <= 5, `${evictions} evictions beside expired records`);
    assert.equal(await s.size(), LIMIT / 2 + LIMIT / 4 - evictions);
    await assertCounted(s);
  });

  bounded('maxBytes bounds the memory of records', { maxBytes: 64 * 1024 }, async ({ s }) => {
    for (let i = 0; i < 400; i++) await s.set(`k${i}`, 'v'.repeat(10 + (i % 40) * 100));
    const { bytes, records } = await boundOf(s);
    assert.ok(bytes <= 64 * 1024 && bytes > 48 * 1024, `${bytes} bytes`);
    assert.equal(await s.size(), records);
    await s.set('long', 'v'.repeat(40_000));
    assert.equal(((await s.get('long')) as string).length, 40_000);
    assert.ok((await boundOf(s)).bytes <= 64 * 1024);
    await s.clear();
    assert.equal((await boundOf(s)).bytes, 0);
  });

  const none = { maxRecords: 3, eviction: 'none' } as const;

  bounded('none refuses further keys', none, async ({ s }) => {
    for (const key of ['a', 'b', 'c']) await s.set(key, '1');
    await rejectsCode('SW_POOL_FULL', () => s.set('d', '1'));
    await rejectsCode('SW_POOL_FULL', () => s.insert('d', '1'));
    await rejectsCode('SW_POOL_FULL', () => s.increment('d'));
    await rejectsCode('SW_POOL_FULL', () => s.append('d', '1'));
    await rejectsCode('SW_POOL_FULL', () => s.swap('d', '1'));
    await rejectsCode('SW_POOL_FULL', () => s.namespace('d').set('d', '1'));
    await rejectsCode('SW_POOL_FULL', () => s.changeState('d', () => ({ result: 0, next: 1 })));
    // A change that adds no key is not refused.
    assert.equal(await s.changeState('d', (state) => ({ result: state ?? 'none' })), 'none');
    assert.equal((await s.incrementWithin('d', 5, { max: 4 })).applied, false);
    await s.append('a', '');
    await s.set('a', '2');
    assert.equal(await s.insert('a', '3'), false);
    assert.equal(await s.increment('a'), 3);
    assert.deepEqual((await collect(s.keys())).sort(), ['a', 'b', 'c']);
    await s.delete('b');
    await s.set('d', '1');
    assert.equal(await s.size(), 3);
  });

  bounded('none sees what another client has deleted', none, async ({ s, attach }) => {
    for (const key of ['a', 'b', 'c']) await s.set(key, '1');
    const other = attach();
    const writes: readonly ((key: string) => Promise<unknown>)[] = [
      (key) => other.set(key, '1'),
      (key) => other.insert(key, '1'),
      (key) => other.increment(key),
    ];
    for (const [i, write] of writes.entries()) {
      await rejectsCode('SW_POOL_FULL', () => write(`d${i}`));
      await s.delete(['a', 'b', 'c'][i]);
      await write(`d${i}`);
    }
    assert.equal(await s.size(), 3);
    await assertCounted(s);
  });

  bounded("a helper's state is not evicted before it has expired", lru, async ({ s }, world) => {
    const names = numbered('lease', LIMIT / 4);
    const keepUntil = world.now + 1e6;
    for (const name of names) {
      await s.changeState(name, () => ({ result: 0, next: name, keepUntil }));
    }
    for (const key of numbered('k', 10 * LIMIT)) await s.set(key, 'v');
    for (const name of names) {
      assert.equal(await s.changeState(name, (state) => ({ result: state })), name);
    }
    const { records } = await boundOf(s);
    assert.equal(records, LIMIT);
    world.now += 1e6;
    for (const key of numbered('l', LIMIT)) await s.set(key, 'v');
    assert.ok((await s.size()) > LIMIT - LIMIT / 8, 'their room is for others');
    await assertCounted(s);
  });

  bounded('a handle for reading notes nothing', lru, async ({ s, attach }) => {
    const keys = numbered('k', LIMIT);
    for (const key of keys) await s.set(key, key);
    const reader = attach({ readOnly: true });
    for (let round = 0; round < 4; round++) await reader.getMany([keys[0], 'missing']);
    assert.equal((await boundOf(reader)).records, LIMIT);
    const { hits, misses } = await boundOf(s);
    assert.deepEqual({ hits, misses }, { hits: 0, misses: 0 });
    for (const key of numbered('l', LIMIT)) {
      await s.set(key, key);
      await reader.get(keys[0]);
    }
    assert.equal(await reader.get(keys[0]), undefined, 'its reads are no uses');
    assert.equal((await boundOf(reader)).records, LIMIT);
    await rejectsCode('SW_READ_ONLY', () => reader.set('k', 'v'));
  });

  bounded('hits and misses are counted', lru, async ({ s }) => {
    await s.set('a', '1');
    await s.get('a');
    await s.has('b');
    await s.getMany(['a', 'b', 'c']);
    const { hits, misses } = await boundOf(s);
    assert.deepEqual({ hits, misses }, { hits: 2, misses: 3 });
  });

  // A store over a network is opened by an await, which the suite does not.
  if (!local) return;
  check('a bound is refused that is none, or another than the store has', async ({ attach }) => {
    for (const bad of [{ maxRecords: 0 }, { maxBytes: 1.5 }, { eviction: 'lru' as const }]) {
      await rejectsCode('SW_INVALID_ARGUMENT', async () =>
        (await attach({ store: 'b', ...bad })).size(),
      );
    }
    const both = { store: 'b', maxRecords: 1, maxBytes: 1 };
    await rejectsCode('SW_INVALID_ARGUMENT', async () => attach(both).size());
    const b = attach({ store: 'b', create: true, ...index, maxRecords: 10 });
    await b.set('k', 'v');
    const other = { store: 'b', maxRecords: 11 };
    await rejectsCode('SW_STORE_MISMATCH', async () => attach(other).size());
  });
}
