import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ucxMissing, ucxNodes } from '../../../fabrics/ucx/tests/support/nodes.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { AsyncStore, IndexName, Value } from '../../api.ts';
import { check } from '../../open.ts';
import { openAlone } from '../support/remote.ts';

/**
 * Random operations of two clients on `ucx://` against a Map: one after the other, and some of them
 * at once. Each index by one of the transports: what UCX has to keep is the same for all of them.
 */
const KEYS = [
  '',
  'a',
  'a\0',
  'x'.repeat(9000),
  ...Array.from({ length: 28 }, (_, i) => `key ${i}`),
];
const KINDS = ['set', 'insert', 'swap', 'delete', 'get', 'many', 'count'] as const;
const RUNS = 6;

interface Call {
  by: 0 | 1;
  kind: (typeof KINDS)[number];
  key: number;
  value: string;
  more: number[];
}

const calls = fc.array(
  fc.record<Call>({
    by: fc.constantFrom(0, 1),
    kind: fc.constantFrom(...KINDS),
    key: fc.nat(KEYS.length - 1),
    value: fc.oneof(
      { weight: 9, arbitrary: fc.string({ maxLength: 60 }) },
      { weight: 1, arbitrary: fc.nat(40_000).map((length) => 'v'.repeat(length)) },
    ),
    more: fc.uniqueArray(fc.nat(KEYS.length - 1), { maxLength: 12 }),
  }),
  { minLength: 10, maxLength: 40, size: 'max' },
);

type Pair = readonly [AsyncStore<Value>, AsyncStore<Value>];

async function perform(stores: Pair, model: Map<string, Value>, call: Call): Promise<void> {
  const store = stores[call.by];
  const { value } = call;
  const key = KEYS[call.key];
  const old = model.get(key);
  const actions: Record<Call['kind'], () => Promise<void>> = {
    set: async () => {
      await store.set(key, value);
      model.set(key, value);
    },
    insert: async () => {
      assert.equal(await store.insert(key, value), old === undefined);
      if (old === undefined) model.set(key, value);
    },
    swap: async () => {
      const version = (await store.getEntry(key))?.version ?? 0;
      const stored = await store.compareAndSet(key, version, value);
      assert.equal(stored !== undefined, old !== undefined);
      if (old !== undefined) model.set(key, value);
    },
    delete: async () => {
      assert.equal(await store.delete(key), model.delete(key));
    },
    get: async () => {
      assert.equal(await stores[1 - call.by].get(key), old);
    },
    many: async () => {
      await store.setMany(call.more.map((i) => [KEYS[i], `${value} ${i}`] as const));
      for (const i of call.more) model.set(KEYS[i], `${value} ${i}`);
      const found = await stores[1 - call.by].getMany(call.more.map((i) => KEYS[i]));
      assert.deepEqual(
        found,
        call.more.map((i) => `${value} ${i}`),
      );
    },
    count: async () => {
      await store.set(key, '0');
      const adding = call.more.map((_, i) => stores[i % 2].increment(key, 1));
      const sums = (await Promise.all(adding)).sort((a, b) => a - b);
      assert.deepEqual(
        sums,
        call.more.map((_, i) => i + 1),
      );
      model.set(key, String(call.more.length));
    },
  };
  await actions[call.kind]();
}

async function assertEqual(store: AsyncStore<Value>, model: Map<string, Value>): Promise<void> {
  const found = new Map<unknown, Value>();
  for await (const [key, value] of store) found.set(key, value);
  assert.equal(found.size, model.size);
  for (const [key, value] of model) assert.equal(found.get(key), value);
}

const skip = ucxMissing();
for (const [transports, nodes] of [
  ['tcp', 1],
  ['posix', 2],
] as const) {
  const start = skip ? undefined : ucxNodes(transports);
  test(`random operations over UCX agree with a Map (${transports})`, { skip }, async (scope) => {
    const { url } = await (start as NonNullable<typeof start>)(scope, nodes);
    const pairs = new Map<IndexName, Pair>();
    for (const [i, { manifest }] of INDEX_KINDS.entries()) {
      if (i % 2 !== nodes - 1) continue;
      const index = manifest.name as IndexName;
      const options = { store: index, index, client: 'test', maxClients: 32 };
      const pair = [await openAlone(url, options), await openAlone(url, options)] as const;
      for (const store of pair) scope.after(() => store.close());
      pairs.set(index, pair);
    }
    const property = fc.asyncProperty(
      fc.constantFrom(...pairs.keys()),
      calls,
      async (index, list) => {
        const stores = pairs.get(index) as Pair;
        await stores[0].clear();
        const model = new Map<string, Value>();
        for (const call of list) await perform(stores, model, call);
        await assertEqual(stores[1], model);
      },
    );
    await fc.assert(property, { numRuns: RUNS, includeErrorInReport: true });
    assert.deepEqual((await check(url)).problems, []);
  });
}
