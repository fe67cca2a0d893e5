import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StoreStats } from '../../../src/store/api.ts';
import { KeyGenerator, ValueGenerator } from '../../workloads/index.ts';
import { Batch } from '../batch.ts';
import { Cleanup } from '../cleanup.ts';
import { parseOptions, UsageError } from '../options.ts';
import { median, spread } from '../statistics.ts';
import { figure, grouped, percent, table } from '../text.ts';
import { perOperation, TrafficMeter } from '../traffic-meter.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 10, minimum: 1, help: 'how many' },
  'out-file': { kind: 'text', fallback: '', help: 'where to' },
  quick: { kind: 'flag', help: 'small' },
} as const;

describe('parseOptions', () => {
  it('takes given values and falls back for the others', () => {
    assert.deepEqual(parseOptions('lab', SPEC, []), { records: 10, 'out-file': '', quick: false });
    const given = ['--records', '20_000', '--out-file=a.json', '--quick'];
    const parsed = parseOptions('lab', SPEC, given);
    assert.deepEqual(parsed, { records: 20_000, 'out-file': 'a.json', quick: true });
  });

  it('refuses what it does not know, with the usage', () => {
    assert.throws(() => parseOptions('lab', SPEC, ['--recrods', '1']), /Usage: lab/);
    for (const wrong of ['0', '1.5', 'x', '']) {
      const message = { name: 'UsageError', message: /--records needs an integer/ };
      assert.throws(() => parseOptions('lab', SPEC, ['--records', wrong]), message);
    }
  });

  it('shows every option when asked for help', () => {
    assert.throws(
      () => parseOptions('lab', SPEC, ['--help']),
      (error: UsageError) => {
        assert.ok(error instanceof UsageError && error.asked);
        return Object.keys(SPEC).every((name) => error.message.includes(`--${name}`));
      },
    );
  });
});

describe('statistics', () => {
  it('takes the middle, or the mean of the two middles', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
    assert.ok(Number.isNaN(median([])));
    assert.deepEqual(spread([10, 9, 100]), { median: 10, minimum: 9, maximum: 100 });
  });
});

describe('text', () => {
  it('formats figures for people', () => {
    assert.deepEqual(
      [grouped(1_234_567), grouped(12), grouped(Number.NaN)],
      ['1,234,567', '12', '-'],
    );
    assert.deepEqual([0.1234, 1.234, 12.34, 1234.5].map(figure), [
      '0.123',
      '1.23',
      '12.3',
      '1,235',
    ]);
    assert.equal(percent(0.9041), '90.4 %');
  });

  it('aligns columns', () => {
    const text = table(
      ['name', 'n'],
      [
        ['a', '1'],
        ['long name', '22'],
      ],
    );
    assert.deepEqual(text.split('\n'), [
      'name        n',
      '---------  --',
      'a           1',
      'long name  22',
    ]);
  });
});

describe('Batch', () => {
  it('fills every record once and ends with a short batch', () => {
    const batch = new Batch(4);
    const keys = new KeyGenerator();
    const values = new ValueGenerator();
    const seen: string[] = [];
    for (let from = 0; from < 10; from += batch.size) {
      for (const [key, value] of batch.fill(from, 10, keys, values)) {
        assert.ok(values.belongsTo(value, seen.length));
        seen.push(Buffer.from(key).toString());
      }
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 10 }, (_, i) => keys.string(i)),
    );
  });
});

describe('Cleanup', () => {
  it('undoes in reverse order, once, and goes on after a failure', async (t) => {
    const error = t.mock.method(console, 'error', () => {});
    const cleanup = new Cleanup();
    const undone: string[] = [];
    cleanup.add(() => void undone.push('first'));
    cleanup.add(() => {
      throw new Error('stuck');
    });
    cleanup.add(async () => void undone.push('last'));
    await cleanup.run();
    await cleanup.run();
    assert.deepEqual(undone, ['last', 'first']);
    assert.equal(error.mock.callCount(), 1);
  });
});

describe('TrafficMeter', () => {
  it('counts operations, and not the readings themselves', () => {
    for (const ownCost of [0, 13]) {
      const traffic = perOperation([], 1);
      const stats = () => {
        const snapshot = { ...traffic };
        traffic.roundTrips += ownCost;
        return { traffic: snapshot } as StoreStats;
      };
      const meter = new TrafficMeter({ stats });
      const used = [2, 0, 30].map((roundTrips) => {
        traffic.roundTrips += roundTrips;
        return meter.read().roundTrips;
      });
      assert.deepEqual(used, [2, 0, 30]);
    }
  });
});
