import assert from 'node:assert/strict';
import { prefixRange } from '../../../../keys.ts';
import { rejectsCode } from '../../../support/codes.ts';
import { numbered, patternBytes } from '../../../support/pools.ts';
import { type Case, collect, cramped, type Suite } from '../suite.ts';

const START = 1_700_000_000_000;

/** The time of day in a case: it stands still but where the case moves it. */
interface Time {
  now: number;
}

export function expiryCases({ check, manifest }: Suite): void {
  const timed = (name: string, body: (given: Case, time: Time) => Promise<void>): void => {
    const time = { now: START };
    const options = { ...cramped(manifest), clock: () => time.now };
    check(name, (given) => body(given, time), options);
  };

  timed('a record is there until its time has come, and then to no read', async ({ s }, time) => {
    await s.set('k', 'v', { ttlMs: 100 });
    await s.set('stays', 'v');
    time.now += 99;
    assert.equal(await s.get('k'), 'v');
    assert.equal(await s.ttl('k'), 1);
    assert.equal(await s.ttl('stays'), Number.POSITIVE_INFINITY);
    assert.equal(await s.size(), 2);
    time.now += 1;
    assert.equal(await s.get('k'), undefined);
    assert.equal(await s.getEntry('k'), undefined);
    assert.equal(await s.has('k'), false);
    assert.equal(await s.read('k', (bytes) => bytes.length), undefined);
    assert.equal(await s.ttl('k'), undefined);
    assert.deepEqual(await s.getMany(['k', 'stays']), [undefined, 'v']);
    assert.equal(await s.size(), 1);
    assert.deepEqual(await collect(s.keys()), ['stays']);
    assert.deepEqual(await collect(s.entries()), [['stays', 'v']]);
  });

  timed(
    'keys whose times stand where a slot cannot tell the length expire',
    async ({ s }, time) => {
      for (const bytes of [16_280, 16_296, 16_300, 16_304, 16_312, 40_000]) {
        const key = 'x'.repeat(bytes);
        await s.set(key, '', { ttlMs: 100 });
        assert.equal(await s.update(key, 'one', { ttlMs: 100 }), true);
        time.now += 100;
        assert.equal(await s.update(key, 'two'), false, `${bytes}`);
        assert.equal(await s.insert(key, 'three'), true, `${bytes}`);
        assert.equal(await s.delete(key), true);
      }
    },
  );

  timed('a record tells its version and its time, and hands the time on', async ({ s }, time) => {
    const expiresAt = time.now + 100;
    assert.equal(await s.metadata('k'), undefined);
    await s.set('k', 'v', { ttlMs: 100 });
    const version = (await s.getEntry('k'))?.version ?? -1;
    assert.deepEqual(await s.metadata('k'), { version, expiresAt });
    time.now += 10;
    const next = (await s.compareAndSet('k', version, 'w', { keepTtl: true })) ?? -1;
    assert.deepEqual(await s.metadata('k'), { version: next, expiresAt });
    assert.equal(await s.compareAndSet('k', version, 'x', { keepTtl: true }), undefined);
    assert.equal(await s.get('k'), 'w');
    const last = (await s.compareAndSet('k', next, 'x')) ?? -1;
    assert.deepEqual(await s.metadata('k'), { version: last, expiresAt: Infinity });
    await s.compareAndSet('k', last, 'y', { ttlMs: 10 });
    time.now += 10;
    assert.equal(await s.metadata('k'), undefined);
    await rejectsCode('SW_INVALID_ARGUMENT', () =>
      s.compareAndSet('k', 1, 'x', { keepTtl: 1 as unknown as boolean }),
    );
  });

  timed('to a write an expired record is absent', async ({ s }, time) => {
    const expired = async (): Promise<number> => {
      await s.set('k', 'old', { ttlMs: 10 });
      const version = (await s.getEntry('k'))?.version ?? -1;
      time.now += 10;
      return version;
    };
    await expired();
    assert.equal(await s.update('k', 'x'), false);
    assert.equal(await s.insert('k', 'new'), true);
    assert.equal(await s.ttl('k'), Number.POSITIVE_INFINITY);
    assert.equal(await s.compareAndSet('k', await expired(), 'x'), undefined);
    assert.equal(await s.compareAndDelete('k', await expired()), false);
    await expired();
    assert.equal(await s.delete('k'), false);
    await expired();
    assert.equal(await s.take('k'), undefined);
    await expired();
    assert.deepEqual(await s.write('k', 'x', { when: 'present' }), {
      written: false,
      previous: undefined,
    });
    assert.deepEqual(await s.write('k', 'x', { previous: true }), {
      written: true,
      previous: undefined,
    });
    await expired();
    assert.equal(await s.deleteMany(['k']), 0);
    assert.equal(await s.get('k'), undefined);
  });

  timed('a write says anew when a record expires', async ({ s }, time) => {
    await s.set('k', 'v', { ttlMs: 10 });
    await s.set('k', 'v');
    time.now += 10;
    assert.equal(await s.get('k'), 'v');
    await s.update('k', 'w', { ttlMs: 5 });
    assert.equal(await s.ttl('k'), 5);
    await s.set('k', 'v', { expiresAt: time.now + 7.5 });
    assert.equal(await s.ttl('k'), 8);
    await s.set('k', 'v', { ttlMs: Number.POSITIVE_INFINITY });
    assert.equal(await s.ttl('k'), Number.POSITIVE_INFINITY);
    await s.set('k', 'v', { expiresAt: time.now - 1 });
    assert.equal(await s.get('k'), undefined);
    await s.setMany(
      [
        ['a', '1'],
        ['b', '2'],
      ],
      { ttlMs: 20 },
    );
    assert.equal(await s.ttl('b'), 20);
  });

  timed('keepTtl: the record that is replaced says when', async ({ s }, time) => {
    await s.set('k', 'v', { ttlMs: 10 });
    time.now += 4;
    const options = { keepTtl: true, previous: true, ttlMs: 99 };
    assert.deepEqual(await s.write('k', 'w', options), { written: true, previous: 'v' });
    assert.equal(await s.ttl('k'), 6);
    time.now += 6;
    assert.deepEqual(await s.write('k', 'x', options), { written: true, previous: undefined });
    assert.equal(await s.ttl('k'), 99);
    const refused = await s.write('k', 'y', { keepTtl: true, when: 'absent' });
    assert.equal(refused.written, false);
    const absent = await s.write('none', 'y', { keepTtl: true, when: 'present' });
    assert.equal(absent.written, false);
    assert.equal(await s.get('k'), 'x');
  });

  timed('expire changes when a record expires, and nothing else', async ({ s }, time) => {
    const values = ['text', 'läng\u{1f600}', Uint8Array.of(0, 255, 1), '', patternBytes(40_000)];
    for (const value of values) {
      await s.set('k', value);
      assert.equal(await s.expire('k', { ttlMs: 10 }), true);
      assert.equal(await s.ttl('k'), 10);
      assert.deepEqual(await s.get('k'), value);
      assert.equal(await s.expire('k'), true);
      assert.equal(await s.ttl('k'), Number.POSITIVE_INFINITY);
      assert.deepEqual(await s.get('k'), value);
    }
    assert.equal(await s.expire('none', { ttlMs: 10 }), false);
    await s.expire('k', { ttlMs: 10 });
    time.now += 10;
    assert.equal(await s.expire('k'), false);
  });

  timed('a counter keeps its time, and begins anew behind it', async ({ s }, time) => {
    assert.equal(await s.increment('n', 1, { ttlMs: 10 }), 1);
    time.now += 5;
    assert.equal(await s.increment('n', 1, { ttlMs: 10 }), 2);
    assert.equal(await s.ttl('n'), 5);
    time.now += 5;
    assert.equal(await s.increment('n', 1, { ttlMs: 10 }), 1);
    assert.equal(await s.ttl('n'), 10);
    time.now += 10;
    assert.equal(await s.increment('n'), 1);
    assert.equal(await s.ttl('n'), Number.POSITIVE_INFINITY);
  });

  timed('a record that slides lives on as long as it is read', async ({ s, attach }, time) => {
    const other = attach({ clock: () => time.now });
    await s.set('k', 'v', { ttlMs: 1000, sliding: true });
    for (let round = 0; round < 5; round++) {
      time.now += 900;
      const reader = round % 2 === 0 ? s : other;
      if (round === 3) assert.deepEqual(await reader.getMany(['k']), ['v']);
      else assert.equal(await reader.get('k'), 'v');
      // A read does not wait for the WRITE that restarts the time. A later read by the same client
      // comes behind it.
      assert.equal(await reader.ttl('k'), 1000);
      assert.equal(await s.ttl('k'), 1000);
    }
    // So soon after a read another one changes nothing.
    time.now += 10;
    assert.equal(await s.get('k'), 'v');
    assert.equal(await s.ttl('k'), 990);
    await s.write('k', 'w', { keepTtl: true });
    assert.equal(await s.ttl('k'), 1000);
    time.now += 1000;
    assert.equal(await other.get('k'), undefined);
  });

  timed('long keys, long values and none', async ({ s }, time) => {
    const keys = ['', 'k'.repeat(20_000), 'k'.repeat(65_535)];
    const values = [
      new Uint8Array(0),
      patternBytes(17),
      patternBytes(20_000),
      patternBytes(200_000),
    ];
    for (const key of keys) {
      for (const value of values) {
        await s.set(key, value, { ttlMs: 10 });
        assert.deepEqual(await s.get(key), value);
        assert.equal(await s.ttl(key), 10);
        assert.deepEqual(await s.getMany([key]), [value]);
        time.now += 10;
        assert.equal(await s.get(key), undefined);
        assert.equal(await s.size(), 0);
        assert.equal(await s.insert(key, value), true);
        assert.deepEqual(await s.take(key), value);
      }
    }
  });

  timed('walks, pages and scans leave out what has expired', async ({ s }, time) => {
    const keys = numbered('k', 300);
    await s.setMany(
      keys.filter((_, i) => i % 3 !== 0).map((key) => [key, 'v']),
      { ttlMs: 10 },
    );
    await s.setMany(keys.filter((_, i) => i % 3 === 0).map((key) => [key, 'v']));
    time.now += 10;
    const live = keys.filter((_, i) => i % 3 === 0).sort();
    assert.deepEqual((await collect(s.keys())).sort(), live);
    assert.equal(await s.size(), live.length);
    let cursor = 0;
    const paged: string[] = [];
    do {
      const page = await s.scanPage(cursor, 20);
      for (const { key } of page.entries) paged.push(String(key));
      cursor = page.cursor;
    } while (cursor !== 0);
    assert.deepEqual([...new Set(paged)].sort(), live);
    if (!manifest.ordered) return;
    assert.deepEqual(
      (await collect(s.scan({ limit: 7 }))).map(([key]) => key),
      live.slice(0, 7),
    );
    const down = (await collect(s.scan({ limit: 7, reverse: true }))).map(([key]) => key);
    assert.deepEqual(down, live.slice(-7).reverse());
    assert.deepEqual(await collect(s.keys({ gt: live[3], limit: 2 })), live.slice(4, 6));
    assert.equal(await s.count(prefixRange('k')), live.length);
    assert.equal((await s.first({ gt: live[0] }))?.[0], live[1]);
    assert.equal((await s.last())?.[0], live.at(-1));
  });

  timed('clear removes what has expired, too', async ({ s }, time) => {
    await s.setMany(
      numbered('k', 50).map((key) => [key, 'v']),
      { ttlMs: 10 },
    );
    time.now += 10;
    await s.clear();
    time.now -= 10;
    assert.equal(await s.size(), 0);
  });

  check('what is no time to live', async ({ s }) => {
    for (const ttlMs of [0, -1, Number.NaN, '10', null, 2 ** 60]) {
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.set('k', 'v', { ttlMs: ttlMs as number }));
    }
    for (const expiresAt of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, new Date()]) {
      const options = { expiresAt: expiresAt as number };
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.set('k', 'v', options));
    }
    const both = { ttlMs: 1, expiresAt: START };
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.set('k', 'v', both));
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.set('k', 'v', { sliding: true }));
    const unknown = { ttl: 5 } as object;
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.set('k', 'v', unknown));
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.increment('k', 1, unknown));
    assert.equal(await s.get('k'), undefined);
  });

  check(
    'a handle has a time to live for all its writes',
    async ({ s }) => {
      await s.set('k', 'v');
      assert.equal(await s.ttl('k'), 50);
      await s.increment('n');
      assert.equal(await s.ttl('n'), 50);
      await s.set('k', 'v', { ttlMs: Number.POSITIVE_INFINITY });
      assert.equal(await s.ttl('k'), Number.POSITIVE_INFINITY);
      await s.set('k', 'v', { ttlMs: 5 });
      assert.equal(await s.ttl('k'), 5);
    },
    { ttlMs: 50, clock: () => START },
  );
}
