import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import type { BoundedOptions } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import type { Suite } from './suite.ts';

const MAX = Number.MAX_SAFE_INTEGER;
const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);

export function counterCases({ check }: Suite): void {
  check('increment counts from 0, up and down', async ({ s }) => {
    assert.equal(await s.increment('n'), 1);
    assert.equal(await s.increment('n'), 2);
    assert.equal(await s.increment('n', 40), 42);
    assert.equal(await s.increment('n', -50), -8);
    assert.equal(await s.increment('n', 0), -8);
    assert.equal(await s.increment('n', 8), 0);
    assert.equal(await s.get('n'), '0');
    assert.equal(await s.increment('new', 0), 0);
    assert.equal(await s.get('new'), '0');
    assert.equal(await s.increment('less', -0), 0);
    assert.equal(await s.increment('less', -7), -7);
    assert.equal(await s.get('less'), '-7');
  });

  check('increment by bigint has 64 bits and returns a bigint', async ({ s }) => {
    assert.equal(await s.increment('n', 1n), 1n);
    assert.equal(await s.increment('n', INT64_MAX - 1n), INT64_MAX);
    assert.equal(await s.get('n'), '9223372036854775807');
    await rejectsCode('SW_OVERFLOW', () => s.increment('n', 1n));
    await rejectsCode('SW_OVERFLOW', () => s.increment('n', 2n ** 70n));
    assert.equal(await s.increment('n', -INT64_MAX), 0n);
    assert.equal(await s.increment('n', INT64_MIN), INT64_MIN);
    await rejectsCode('SW_OVERFLOW', () => s.increment('n', -1n));
    assert.equal(await s.get('n'), '-9223372036854775808');
  });

  check('increment by number stays among the safe integers', async ({ s }) => {
    await s.set('n', String(MAX - 1));
    assert.equal(await s.increment('n'), MAX);
    await rejectsCode('SW_OVERFLOW', () => s.increment('n'));
    assert.equal(await s.get('n'), String(MAX));
    await rejectsCode('SW_OVERFLOW', () => s.increment('n', MAX));
    await s.set('n', String(-MAX));
    await rejectsCode('SW_OVERFLOW', () => s.increment('n', -1));
    await s.set('n', '9007199254740993');
    await rejectsCode('SW_OVERFLOW', () => s.increment('n'));
    assert.equal(await s.increment('n', 1n), 9007199254740994n);
  });

  check('increment by something else is refused', async ({ s }) => {
    await s.set('n', '5');
    for (const by of [1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.increment('n', by));
    }
    for (const by of ['5', 'abc', null, {}, true]) {
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.increment('n', by as number), String(by));
    }
    assert.equal(await s.get('n'), '5');
  });

  check('increment of what is no decimal integer leaves it as it is', async ({ s }) => {
    const wrong = ['', ' 1', '1 ', '1\n', '+1', '-', '-0', '00', '01', '-01', '1.0', '1e3', '0x1'];
    wrong.push('abc', '١', '9223372036854775808', '-9223372036854775809', '1'.repeat(30));
    wrong.push('7'.repeat(30_000));
    for (const value of wrong) {
      await s.set('n', value);
      await rejectsCode('SW_NOT_INTEGER', () => s.increment('n'), JSON.stringify(value));
      await rejectsCode('SW_NOT_INTEGER', () => s.increment('n', 1n));
      assert.equal(await s.get('n'), value);
    }
    await s.set('n', Uint8Array.of(0xff));
    await rejectsCode('SW_NOT_INTEGER', () => s.increment('n'));
    await s.set('n', Buffer.from('41'));
    assert.equal(await s.increment('n'), 42);
  });

  check('a bounded counter stays within its bounds', async ({ s }) => {
    const within = { min: 0, max: 3 };
    const forever = Number.POSITIVE_INFINITY;
    for (const value of [1, 2, 3]) {
      const outcome = await s.incrementWithin('n', 1, within);
      assert.deepEqual(outcome, { applied: true, value, ttlMs: forever });
    }
    const refused = await s.incrementWithin('n', 1, within);
    assert.deepEqual(refused, { applied: false, value: 3, ttlMs: forever });
    assert.equal((await s.incrementWithin('n', -4, within)).applied, false);
    assert.equal((await s.incrementWithin('n', -3, within)).value, 0);
    assert.equal((await s.incrementWithin('none', 4, within)).applied, false);
    assert.equal(await s.has('none'), false);
    const big = await s.incrementWithin('n', 5n, { max: 5n });
    assert.equal(big.value, 5n);
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.incrementWithin('n', 1, { max: 1.5 }));
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.incrementWithin('n', 1, { most: 1 } as never));
    await s.set('n', 'text');
    await rejectsCode('SW_NOT_INTEGER', () => s.incrementWithin('n', 1, within));
  });

  check('bounds that are none are refused, and nothing is stored', async ({ s }) => {
    const wrong = [
      [1, { min: 4, max: 3 }],
      [1n, { min: 4n, max: 3n }],
      [1, { max: 3n }],
      [1, { min: 0n, max: 3 }],
      [1n, { max: 3 }],
      [1n, { min: 0, max: 3n }],
      [1, { min: null }],
      [1, { max: '3' }],
    ] as unknown as [number, BoundedOptions<number>][];
    for (const [by, bounds] of wrong) {
      const refused = () => s.incrementWithin('n', by, bounds);
      await rejectsCode('SW_INVALID_ARGUMENT', refused, inspect([by, bounds]));
    }
    assert.equal(await s.has('n'), false);
    assert.equal((await s.incrementWithin('n', 3, { min: 3, max: 3 })).value, 3);
  });

  {
    const time = { now: 1_700_000_000_000 };
    check(
      'a bounded counter that expires',
      async ({ s }) => {
        const window = { max: 1, ttlMs: 100 };
        assert.equal((await s.incrementWithin('n', 1, window)).ttlMs, 100);
        time.now += 40;
        const refused = await s.incrementWithin('n', 1, window);
        assert.deepEqual(refused, { applied: false, value: 1, ttlMs: 60 });
        time.now += 60;
        assert.equal((await s.incrementWithin('n', 1, window)).applied, true);
      },
      { clock: () => time.now },
    );
  }
}
