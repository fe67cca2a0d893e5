import assert from 'node:assert/strict';
import { StepwellError } from '../../../../errors.ts';
import type { AsyncStore, Key, Value } from '../../../api.ts';
import { prefixRange } from '../../../keys.ts';
import type { RangeBounds, ScanOptions } from '../../../ordered-api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { patternBytes } from '../../support/pools.ts';
import { collect, cramped, grown, type Suite } from './suite.ts';

/** In the order of their bytes; prefixes of one another, and one beyond what a slot can say. */
const SORTED: readonly Key[] = [
  '',
  '\0',
  '\0\0',
  'a',
  'a\0',
  'a\0b',
  'aa',
  `aa${'x'.repeat(16_300)}`,
  `aa${'x'.repeat(16_300)}y`,
  'ab',
  'b',
  'z',
  'é',
  '語',
  '\u{1f600}',
  Uint8Array.of(0xff),
  Uint8Array.of(0xff, 0),
  Uint8Array.of(0xff, 0xff),
];

const CALLS: Record<string, (s: AsyncStore<Value>) => Promise<unknown>> = {
  scan: async (s) => s.scan({}).next(),
  'scan of everything': async (s) => s.scan().next(),
  entries: async (s) => s.entries({}).next(),
  keys: async (s) => s.keys({ gte: 'a' }).next(),
  values: async (s) => s.values({ limit: 3 }).next(),
  first: (s) => s.first(),
  last: (s) => s.last({ lt: 'k' }),
  count: (s) => s.count(),
  'first of a prefix': (s) => s.first({ prefix: 'k' }),
  'last of a prefix': (s) => s.last({ prefix: 'k' }),
  'a prefix in reverse': async (s) => s.keys({ prefix: 'k', reverse: true }).next(),
  'clear of a range': (s) => s.clear({ gte: 'a' }),
};

const numbers = (count: number) =>
  Array.from({ length: count }, (_, i) => `k${String(i).padStart(4, '0')}`);

async function fill(s: AsyncStore<Value>, keys: readonly Key[]): Promise<void> {
  // Not in their order.
  const shuffled = keys.map((key, i) => [key, i, (i * 7919) % 1009] as const);
  shuffled.sort((a, b) => a[2] - b[2]);
  await s.setMany(shuffled.map(([key, i]) => [key, `${i}`] as const));
}

export function orderedCases(suite: Suite): void {
  const { check, manifest } = suite;
  if (!manifest.ordered) {
    check('what needs order says that there is none', async ({ s }) => {
      await s.set('k', 'v');
      for (const [name, call] of Object.entries(CALLS)) {
        await rejectsCode('SW_UNSUPPORTED', () => call(s), name);
      }
      assert.equal(await s.get('k'), 'v');
    });
    return;
  }
  rangeCases(suite);
  scanCases(suite);
  endingCases(suite);
}

/** Values that a caller might pass as a range by mistake. */
const NO_RANGES: readonly unknown[] = [5.5, 'x', null, [], () => 0, new Map(), new Date(), 3n];

function rangeCases({ check, manifest }: Suite): void {
  check('what is no range is refused at once, with a code', async ({ s }) => {
    await fill(s, numbers(10));
    for (const wrong of NO_RANGES) {
      const range = wrong as ScanOptions;
      const text = String(wrong);
      const walks = [() => s.entries(range), () => s.keys(range), () => s.values(range)];
      const calls = [...walks, () => s.scan(range)];
      // None of them may be a promise: `for await` would not wait for it.
      for (const call of calls) assert.throws(call, { code: 'SW_INVALID_ARGUMENT' }, text);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.first(range), text);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.last(range), text);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.count(range), text);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.clear(range), text);
    }
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.scanPage(5.5));
    for (const limit of ['3', 3n, null, -1, 2 ** 60, Symbol('x')]) {
      const range = { limit } as object;
      assert.throws(() => s.scan(range), { code: 'SW_INVALID_ARGUMENT' }, String(limit));
    }
    assert.equal(await s.count(), 10);
  });

  check('scan hands out every range of keys in the order of their bytes', async ({ s }) => {
    await fill(s, SORTED);
    assert.deepEqual(await collect(s.keys({})), SORTED);
    assert.deepEqual(await collect(s.keys({ reverse: true })), SORTED.toReversed());
    for (const [i, from] of SORTED.entries()) {
      assert.deepEqual(await collect(s.keys({ gte: from })), SORTED.slice(i));
      assert.deepEqual(await collect(s.keys({ gt: from })), SORTED.slice(i + 1));
      const below = await collect(s.keys({ lt: from, reverse: true }));
      assert.deepEqual(below, SORTED.slice(0, i).reverse());
      for (const [j, to] of SORTED.entries()) {
        const range = SORTED.slice(i, j + 1);
        assert.deepEqual(await collect(s.keys({ gte: from, lte: to })), range);
        assert.equal(await s.count({ gte: from, lte: to }), range.length);
        assert.equal(await s.count({ gt: from, lt: to }), Math.max(0, range.length - 2));
        assert.deepEqual((await s.first({ gt: from, lte: to }))?.[0], range[1]);
        assert.deepEqual((await s.last({ gte: from, lte: to }))?.[0], range.at(-1));
      }
    }
  });

  check('entries, keys and values of a range', async ({ s }) => {
    await fill(s, numbers(300));
    const range = { gt: 'k0100', lte: 'k0103' };
    const pairs = ['k0101', 'k0102', 'k0103'].map((key, i) => [key, `${101 + i}`]);
    assert.deepEqual(await collect(s.scan(range)), pairs);
    assert.deepEqual(await collect(s.entries(range)), pairs);
    assert.deepEqual(await collect(s.values(range)), ['101', '102', '103']);
    assert.equal((await collect(s.scan())).length, 300);
    assert.deepEqual(await collect(s.keys({ ...range, reverse: true, limit: 2 })), [
      'k0103',
      'k0102',
    ]);
    assert.deepEqual(await collect(s.keys({ limit: 0 })), []);
    for (const limit of [1, 63, 64, 65, 299, 300, 301, Number.POSITIVE_INFINITY]) {
      assert.equal((await collect(s.keys({ limit }))).length, Math.min(limit, 300));
    }
  });

  check('first and last return what scans return', async ({ s }) => {
    assert.equal(await s.first(), undefined);
    assert.equal(await s.last({ gte: 'a' }), undefined);
    assert.equal(await s.count(), 0);
    await fill(s, numbers(100));
    assert.deepEqual(await s.first(), (await s.scan().next()).value);
    assert.deepEqual(await s.first(), ['k0000', '0']);
    assert.deepEqual(await s.last({ lt: 'k0050' }), ['k0049', '49']);
    assert.deepEqual(await s.first({ prefix: 'k005' }), ['k0050', '50']);
    assert.deepEqual(await s.last({ prefix: 'k005' }), ['k0059', '59']);
    assert.equal(await s.last({ prefix: 'x' }), undefined);
    assert.equal(await s.first({ gt: 'k0099' }), undefined);
    assert.equal(await s.last({ lt: 'k0000' }), undefined);
    assert.equal(await s.count({ gte: 'k0010', lt: 'k0020' }), 10);
  });

  check('the range of a prefix', async ({ s }) => {
    await fill(s, SORTED);
    const bytesOf = (key: Key) => Buffer.from(key as string);
    for (const prefix of SORTED) {
      const begins = (key: Key) => bytesOf(key).subarray(0, bytesOf(prefix).length);
      const expected = SORTED.filter((key) => begins(key).equals(bytesOf(prefix)));
      assert.deepEqual(await collect(s.keys(prefixRange(prefix))), expected);
      assert.deepEqual(await collect(s.keys({ prefix })), expected);
      const down = { prefix, reverse: true, limit: 2 };
      assert.deepEqual(await collect(s.keys(down)), expected.toReversed().slice(0, 2));
    }
  });

  check('a range whose ends are the wrong way round is empty', async ({ s }) => {
    await fill(s, numbers(100));
    const empty: RangeBounds[] = [
      { gte: 'k0050', lt: 'k0050' },
      { gt: 'k0050', lte: 'k0050' },
      { gte: 'k0051', lte: 'k0050' },
      { gt: 'z' },
      { lt: '' },
    ];
    for (const range of empty) {
      assert.deepEqual(await collect(s.scan(range)), []);
      assert.deepEqual(await collect(s.scan({ ...range, reverse: true })), []);
      assert.equal(await s.count(range), 0);
      assert.equal(await s.clear(range), 0);
    }
    assert.equal(await s.count(), 100);
  });

  check(
    'clear of a range, its limit and its direction',
    async ({ s }) => {
      await fill(s, numbers(1000));
      assert.equal(await s.clear({ gte: 'k0100', lt: 'k0900' }), 800);
      assert.equal(await s.size(), 200);
      assert.equal(await s.clear({ limit: 3 }), 3);
      assert.equal(await s.clear({ limit: 3, reverse: true }), 3);
      assert.equal(await s.clear({ limit: 0 }), 0);
      assert.equal((await s.first())?.[0], 'k0003');
      assert.equal((await s.last())?.[0], 'k0996');
      assert.equal(await s.clear({}), 194);
      assert.deepEqual(await collect(s.keys()), []);
    },
    cramped(manifest),
  );

  check('bounds that are getters of a class', async ({ s }) => {
    class Decade {
      get gte(): string {
        return '0010';
      }
      get lt(): string {
        return '0020';
      }
    }
    await fill(s, ['0001', '0011', '0012', '0030']);
    assert.equal((await s.first(new Decade()))?.[0], '0011');
    assert.equal((await s.last(new Decade()))?.[0], '0012');
    assert.equal(await s.count(new Decade()), 2);
  });

  check('a range that cannot be is refused', async ({ s }) => {
    await fill(s, numbers(10));
    const refused: [string, unknown][] = [
      ...[-1, 0.5, Number.NaN, '3', null].map((limit) => ['limit', { limit }] as [string, unknown]),
      ['reverse', { reverse: 1 }],
      ['signal', { signal: 'stop' }],
      ['both', { gt: 'a', gte: 'a' }],
      ['both', { lt: 'a', lte: 'a' }],
      ...['gte', 'gt', 'lte', 'lt'].map(
        (end) => [`prefix and ${end}`, { prefix: 'a', [end]: 'a' }] as [string, unknown],
      ),
      ['start', { start: 'a' }],
    ];
    for (const [name, range] of refused) {
      const scan = async () => s.scan(range as ScanOptions).next();
      await rejectsCode('SW_INVALID_ARGUMENT', scan, name);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.first(range as RangeBounds), name);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.clear(range as RangeBounds), name);
    }
    for (const bounds of [null, 5, 'a', true] as unknown as RangeBounds[]) {
      const name = String(bounds);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.count(bounds), name);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.first(bounds), name);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.last(bounds), name);
    }
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.count({ reverse: true } as RangeBounds));
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.first({ limit: 1 } as RangeBounds));
    for (const gte of [3, null, '\ud800', 'k'.repeat(65_536)]) {
      const scan = async () => s.scan({ gte: gte as Key }).next();
      await rejectsCode('SW_INVALID_KEY', scan, String(gte).slice(0, 9));
    }
    for (const size of [0, -1, 1.5, Number.NaN, '2', undefined]) {
      const batch = async () => s.scan().nextMany(size as number);
      await rejectsCode('SW_INVALID_ARGUMENT', batch, String(size));
    }
  });

  check('the bounds of a scan are copied', async ({ s }) => {
    await fill(s, numbers(100));
    const gte = Buffer.from('k0050');
    const scan = s.keys({ gte });
    gte.fill(0);
    assert.equal((await scan.next()).value, 'k0050');
  });
}

function scanCases({ check, manifest }: Suite): void {
  check('the batch form, alone and mixed with single steps', async ({ s }) => {
    const keys = numbers(500);
    await fill(s, keys);
    for (const size of [1, 7, 64, 499, 500, 501, 10_000]) {
      const scan = s.keys({});
      const found: Key[] = [];
      for (;;) {
        const batch = await scan.nextMany(size);
        found.push(...batch);
        if (found.length < 500) assert.equal(batch.length, size);
        if (batch.length === 0) break;
      }
      assert.deepEqual(found, keys);
      assert.deepEqual(await scan.nextMany(size), []);
      assert.equal((await scan.next()).done, true);
    }
    const scan = s.keys({ limit: 150, reverse: true });
    const found = [(await scan.next()).value, ...(await scan.nextMany(99))];
    found.push((await scan.next()).value, ...(await scan.nextMany(99)));
    assert.deepEqual(found, keys.slice(350).reverse());
  });

  check('seek, forward and back and beyond the ends', async ({ s }) => {
    await fill(s, numbers(300));
    const scan = s.keys({ gte: 'k0100', lt: 'k0200' });
    const at = async () => (await scan.next()).value;
    assert.equal(await at(), 'k0100');
    for (const [key, found] of [
      ['k0150', 'k0150'],
      ['k01505', 'k0151'],
      ['k0110', 'k0110'],
      ['', 'k0100'],
      ['z', undefined],
      ['k0199', 'k0199'],
    ]) {
      scan.seek(key as string);
      assert.equal(await at(), found, `sought ${key}`);
    }
    assert.equal(await at(), undefined);
    const back = s.keys({ gte: 'k0100', lt: 'k0200', reverse: true });
    for (const [key, found] of [
      ['k0150', 'k0150'],
      ['k01505', 'k0150'],
      ['k0200', 'k0199'],
      ['z', 'k0199'],
      ['k0099', undefined],
      ['k0100', 'k0100'],
    ]) {
      back.seek(key as string);
      assert.equal((await back.next()).value, found, `sought ${key} backwards`);
    }
  });

  check('the limit goes on counting after a seek', async ({ s }) => {
    await fill(s, numbers(300));
    const scan = s.keys({ limit: 5 });
    assert.equal((await scan.nextMany(2)).length, 2);
    scan.seek('k0200');
    assert.deepEqual(await scan.nextMany(9), ['k0200', 'k0201', 'k0202']);
    scan.seek('k0000');
    assert.equal((await scan.next()).done, true);
  });

  check('chained values and long keys with long common prefixes', async ({ s }) => {
    const keys = Array.from({ length: 12 }, (_, i) => 'p'.repeat(20_000 + 500 * (i % 4)) + i);
    for (const [i, key] of keys.entries()) await s.set(key, patternBytes(30_000, i));
    const sorted = keys.toSorted();
    const found = await collect(s.scan({ reverse: true }));
    assert.deepEqual(
      found.map(([key]) => key),
      sorted.toReversed(),
    );
    for (const [key, value] of found) {
      assert.deepEqual(value, patternBytes(30_000, keys.indexOf(key as string)));
    }
    const [low, , high] = sorted;
    assert.equal(await s.count({ gte: low, lt: high }), 2);
  });

  for (const reverse of [false, true]) {
    check(
      `a key that stays comes once, in order, whatever comes and goes, ${reverse ? 'down' : 'up'}`,
      async ({ s, attach }) => {
        const stay = numbers(400).filter((_, i) => i % 2 === 0);
        await fill(s, numbers(400));
        const other = attach();
        const scan = s.scan({ reverse });
        const found: string[] = [];
        let last: string | undefined;
        for await (const [key, value] of scan) {
          const text = String(key);
          if (last !== undefined) assert.ok(reverse ? text < last : text > last, `${last} ${text}`);
          last = text;
          if (stay.includes(text)) found.push(text);
          assert.ok(value === 'changed' || value === 'new' || value === String(+text.slice(1)));
          const i = found.length;
          if (i > 600) break;
          await other.delete(`k${String(((i * 37) % 400) | 1).padStart(4, '0')}`);
          for (let n = 0; n < 3; n++)
            await other.set(`k${String(i * n).padStart(4, '0')}+${n}`, 'new');
          await other.set(stay[(i * 31) % stay.length], 'changed');
        }
        assert.deepEqual(reverse ? found.reverse() : found, stay);
        assert.ok(grown(await other.stats()) > 20);
      },
      cramped(manifest),
    );
  }
}

function endingCases({ check }: Suite): void {
  check('a scan that was left is over and holds up nobody', async ({ s, attach }) => {
    await fill(s, numbers(300));
    const scan = s.keys({});
    for await (const key of scan) if (key === 'k0003') break;
    assert.equal((await scan.next()).done, true);
    assert.deepEqual(await scan.nextMany(3), []);
    scan.seek('k0000');
    assert.equal((await scan.next()).done, true);
    const second = s.keys({});
    await second.next();
    assert.deepEqual(await second.return(), { done: true, value: undefined });
    assert.equal((await second.next()).done, true);
    const third = s.keys({});
    await third[Symbol.asyncDispose]();
    assert.equal((await third.next()).done, true);
    // Forgotten in the middle, and what it had read is removed and replaced.
    await s.scan().next();
    for (let round = 0; round < 5; round++) await attach().clear({});
    assert.equal(await s.size(), 0);
  });

  check('a signal aborts a scan', async ({ s }) => {
    await fill(s, numbers(300));
    const reason = new Error('enough');
    const before = s.keys({ signal: AbortSignal.abort(reason) });
    await rejectsCode('SW_ABORTED', () => before.next());
    const controller = new AbortController();
    const scan = s.keys({ signal: controller.signal });
    const found: Key[] = [];
    const error = await (async () => {
      for await (const key of scan) {
        found.push(key);
        if (found.length === 5) controller.abort(reason);
      }
      return undefined;
    })().catch((raised: unknown) => raised);
    assert.ok(error instanceof StepwellError && error.code === 'SW_ABORTED');
    assert.equal(error.cause, reason);
    assert.deepEqual(found, numbers(5));
    await rejectsCode('SW_ABORTED', () => scan.nextMany(1));
    assert.equal(await s.count(), 300);
  });

  check('a store that is closed in the middle of a scan', async ({ s, attach }) => {
    const other = attach();
    await fill(other, numbers(300));
    const scans = [s.scan(), s.keys({ reverse: true }), s.values({ limit: 9 })];
    for (const scan of scans) await scan.next();
    await s.close();
    for (const scan of scans) {
      await rejectsCode('SW_CLOSED', () => scan.next());
      await rejectsCode('SW_CLOSED', () => scan.nextMany(3));
      await rejectsCode('SW_CLOSED', async () => scan.seek('a'));
      await scan.return();
    }
    for (const [name, call] of Object.entries(CALLS)) {
      await rejectsCode('SW_CLOSED', () => call(s), name);
    }
    assert.equal(await other.count(), 300);
  });
}
