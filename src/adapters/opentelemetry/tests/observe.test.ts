import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { freshStore } from '../../../store/tests/support/pools.ts';
import { type MeterLike, observe } from '../index.ts';

type Observer = Parameters<ReturnType<MeterLike['createObservableCounter']>['addCallback']>[0];

/** Collects as OpenTelemetry's SDK does. */
class Meter implements MeterLike {
  readonly #observers = new Map<string, Set<Observer>>();
  readonly sums = new Map<string, number>();

  #observable(name: string) {
    const observers = new Set<Observer>();
    this.#observers.set(name, observers);
    return {
      addCallback: (observer: Observer) => void observers.add(observer),
      removeCallback: (observer: Observer) => void observers.delete(observer),
    };
  }

  createObservableCounter(name: string) {
    return this.#observable(name);
  }

  createObservableGauge(name: string) {
    return this.#observable(name);
  }

  createCounter(name: string) {
    return {
      add: (value: number, attributes = {}) => {
        const key = `${name} ${Object.values(attributes).join(' ')}`;
        this.sums.set(key, (this.sums.get(key) ?? 0) + value);
      },
    };
  }

  async collect(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (const [name, observers] of this.#observers) {
      for (const observer of observers) {
        await observer({
          observe: (value, attributes = {}) => {
            found.set(`${name} ${Object.values(attributes).join(' ')}`, value);
          },
        });
      }
    }
    return found;
  }
}

test('a meter gets what the client of a store does', async (t) => {
  const store = freshStore(t, 'memory', { store: 'mine', size: 2 ** 21 });
  const meter = new Meter();
  using _ = observe(store, { meter, records: true });
  store.set('k', 'v');
  const first = await meter.collect();
  assert.equal(first.get('stepwell.records mine'), 1);
  assert.ok(Number(first.get('stepwell.verbs mine writes')) > 0);
  for (let i = 0; i < 10; i++) store.get('k');
  const second = await meter.collect();
  const reads = 'stepwell.verbs mine reads';
  assert.ok(Number(second.get(reads)) >= Number(first.get(reads)) + 10);
  assert.ok(Number(second.get('stepwell.bytes mine read')) > 0);
  assert.ok([...second.keys()].some((name) => name.startsWith('stepwell.resizes mine')));
  assert.throws(() => {
    for (let i = 0; ; i++) store.set(`k${i}`, 'x'.repeat(4000));
  });
  assert.equal(meter.sums.get('stepwell.events mine full'), 1);
  store.close();
  assert.equal((await meter.collect()).size, 0);
});

test('it ends, and refuses what is no meter', async (t) => {
  const store = freshStore(t);
  const meter = new Meter();
  observe(store, { meter })[Symbol.dispose]();
  assert.equal((await meter.collect()).size, 0);
  throwsCode('SW_INVALID_ARGUMENT', () => observe(store, {} as never));
  throwsCode('SW_INVALID_ARGUMENT', () => observe({} as never, { meter }));
});
