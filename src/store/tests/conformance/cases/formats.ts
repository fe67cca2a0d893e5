import assert from 'node:assert/strict';
import type { AsyncStore, OpenOptions } from '../../../api.ts';
import type { AnyOptions } from '../../../open-options.ts';
import { rejectsCode } from '../../support/codes.ts';
import { collect, type Suite } from './suite.ts';

/** The type of the suite's stores does not say which values a format returns. */
const opened = (options: AnyOptions) => options as OpenOptions;

const SESSION = {
  name: 'Ada',
  roles: ['admin'],
  visits: 3,
  nested: { läng: '\u{1f600}', no: null },
};
const RICH = new Map<string, unknown>([
  ['when', new Date(5)],
  ['big', 2n ** 70n],
  ['set', new Set([1, 'two'])],
  ['bytes', Uint8Array.of(1, 2, 3)],
]);

/** Values of any type, in each format. */
export function formatCases({ check }: Suite): void {
  const formats = {
    json: [SESSION, [], 'text', 0, false, null],
    v8: [SESSION, RICH, 'text', -1.5, null],
    msgpack: [SESSION, [1, -1, 1.5], 'text', true, null, Uint8Array.of(9)],
  } as const;
  for (const [format, samples] of Object.entries(formats)) {
    const values = format as keyof typeof formats;
    check(
      `${format}: each value comes back from every call`,
      async ({ s: store }) => {
        const s = store as unknown as AsyncStore<unknown>;
        for (const [i, value] of samples.entries()) {
          await s.set(`k${i}`, value);
          assert.deepEqual(plain(await s.get(`k${i}`)), value);
        }
        const first = samples[0];
        const entry = await s.getEntry('k0');
        assert.deepEqual(entry?.value, first);
        assert.equal(await s.insert('k0', first), false);
        assert.equal(await s.update('k0', 'other'), true);
        assert.deepEqual(await s.write('k0', first, { previous: true }), {
          written: true,
          previous: 'other',
        });
        const version = (await s.getEntry('k0'))?.version ?? -1;
        assert.notEqual(await s.compareAndSet('k0', version, 'third'), undefined);
        await s.setMany([['many', first]]);
        assert.deepEqual(await s.getMany(['many', 'k0', 'none']), [first, 'third', undefined]);
        const met = new Map((await collect(s.entries())) as [string, unknown][]);
        assert.deepEqual(met.get('many'), first);
        assert.equal(met.size, samples.length + 1);
        assert.deepEqual((await s.scanPage(0, 10_000)).entries.length, met.size);
        assert.deepEqual(await s.take('many'), first);
      },
      opened({ values }),
    );

    check(
      `${format}: counters are numbers`,
      async ({ s: store }) => {
        const s = store as unknown as AsyncStore<unknown>;
        assert.equal(await s.increment('n', 2), 2);
        assert.equal(await s.increment('n', -5), -3);
        assert.equal(await s.get('n'), -3);
        await s.set('text', 'x');
        await rejectsCode('SW_NOT_INTEGER', () => s.increment('text'));
      },
      opened({ values }),
    );
  }

  check(
    'a codec of the caller',
    async ({ s: store, attach }) => {
      const s = store as unknown as AsyncStore<Date>;
      await s.set('k', new Date(7));
      assert.deepEqual(await s.get('k'), new Date(7));
      assert.equal(await attach().get('k'), '7');
    },
    opened({ values: dates }),
  );

  check(
    'what a format cannot express is refused, and nothing stored',
    async ({ s: store }) => {
      const s = store as unknown as AsyncStore<unknown>;
      const circle: { self?: unknown } = {};
      circle.self = circle;
      for (const value of [undefined, () => 1, Symbol('no'), 1n, circle]) {
        await rejectsCode('SW_INVALID_VALUE', () => s.set('k', value));
        await rejectsCode('SW_INVALID_VALUE', () => s.insert('k', value));
        await rejectsCode('SW_INVALID_VALUE', () => s.update('k', value));
        await rejectsCode('SW_INVALID_VALUE', () => s.write('k', value));
        await rejectsCode('SW_INVALID_VALUE', () => s.compareAndSet('k', 0, value));
        await rejectsCode('SW_INVALID_VALUE', () => s.setMany([['k', value]]));
      }
      assert.equal(await s.size(), 0);
    },
    opened({ values: 'json' }),
  );

  check('what another client stored in no such format', async ({ s, attach }) => {
    await s.set('k', '{"half": ');
    for (const values of ['json', 'v8', dates] as const) {
      const other = attach(opened({ values }));
      await rejectsCode('SW_UNDECODABLE', () => other.get('k'));
      await rejectsCode('SW_UNDECODABLE', () => other.getMany(['k']));
      await rejectsCode('SW_UNDECODABLE', async () => {
        await collect(other.values());
      });
      assert.equal(await other.has('k'), true);
      assert.equal(await other.delete('none'), false);
    }
    assert.equal(await s.get('k'), '{"half": ');
  });
}

const dates = {
  encode: (value: Date) => String(value.getTime()),
  decode: (bytes: Uint8Array) => {
    const time = Number(Buffer.from(bytes).toString());
    if (Number.isNaN(time)) throw new Error('no time');
    return new Date(time);
  },
};

/** msgpackr returns bytes as a Buffer. */
function plain(value: unknown): unknown {
  return Buffer.isBuffer(value) ? new Uint8Array(value) : value;
}
