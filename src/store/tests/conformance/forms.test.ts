import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SharedFabric } from '../../../fabrics/shared/shared-fabric.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { Prng } from '../../../random/prng.ts';
import type { Batch } from '../../../verbs/index.ts';
import type { IndexName, Store } from '../../api.ts';
import { replace } from '../support/replace.ts';

/**
 * The package has operations in two forms (scripts/derive.ts); these tests compare them as built.
 */
const built = new URL('../../../../dist/modules/', import.meta.url).href;
const OPERATIONS = 2000;
const KEYS = 200;

interface Library {
  openSync(url: string, options: object): Store;
}

async function form(tree: string): Promise<Library> {
  return import(`${built}${tree}store/open.js`);
}

async function fabricOfBuild(): Promise<typeof SharedFabric> {
  return (await import(`${built}fabrics/shared/shared-fabric.js`)).SharedFabric;
}

/** The batches that are executed while `work` runs: kind, address and length of each verb. */
async function batchesOf(work: () => void): Promise<string[]> {
  const fabric = await fabricOfBuild();
  const batches: string[] = [];
  const { execute } = fabric.prototype;
  const recorded = function (this: SharedFabric, batch: Batch) {
    const { kind, address, bytes, length } = batch;
    const verbs = Array.from({ length }, (_, i) => `${kind[i]} ${address[i]} ${bytes[i]}`);
    batches.push(verbs.join(', '));
    execute.call(this, batch);
  };
  const restore = replace(fabric.prototype, 'execute', recorded);
  try {
    work();
  } finally {
    restore();
  }
  return batches;
}

/** The same calls for the same seed: what a store draws by lot is drawn from it as well. */
function useStore({ openSync }: Library, index: IndexName): void {
  const prng = Prng.fromSeed(7);
  // What a client tells once a second is told by no call.
  const restore = [
    replace(performance, 'now', () => 0),
    replace(Math, 'random', () => prng.below(2 ** 31) / 2 ** 31),
  ];
  try {
    const store = openSync('memory:', { store: 'forms', index, size: 2 ** 26 });
    for (let i = 0; i < OPERATIONS; i++) useOnce(store, prng, i);
    if (index === 'chime') for (const _ of store.scan({ gte: 'key 1', reverse: true }));
    for (const _ of store) assert.ok(true);
    store.clear();
    if (index === 'chime') store.loadSorted([['a', 'b']]);
    store.close();
  } finally {
    for (const one of restore) one();
  }
}

function useOnce(store: Store, prng: Prng, i: number): void {
  const key = `key ${prng.below(KEYS)}`;
  const value = prng.below(50) === 0 ? 'long '.repeat(3000) : `value ${i}`;
  const calls = [
    () => store.get(key),
    () => store.set(key, value),
    () => store.set(key, value),
    () => store.insert(key, value),
    () => store.update(key, value),
    () => store.delete(key),
    () => store.take(key),
    () => store.increment(`counter ${prng.below(9)}`),
    () => store.compareAndSet(key, store.getEntry(key)?.version ?? 0, value),
    () => store.write(key, value, { previous: true }),
    () => store.getMany([key, 'key 0', 'nothing']),
    () =>
      store.setMany([
        [key, value],
        [`key ${i}`, value],
      ]),
  ];
  calls[prng.below(calls.length)]();
}

for (const { manifest } of INDEX_KINDS) {
  const name = manifest.name as IndexName;

  test(`both forms of ${name} post the same verbs in the same batches`, async () => {
    const [synchronous, generators] = [await form(''), await form('generators/')];
    const derived = await batchesOf(() => useStore(synchronous, name));
    const written = await batchesOf(() => useStore(generators, name));
    const first = written.findIndex((batch, i) => batch !== derived[i]);
    assert.equal(derived[first], written[first], `batch ${first}`);
    assert.equal(derived.length, written.length);
    assert.ok(written.length > OPERATIONS);
  });

  test(`no generator runs in a synchronous store of ${name}`, async () => {
    const prototype = Object.getPrototypeOf(Object.getPrototypeOf((function* () {})()));
    const { next } = prototype;
    let calls = 0;
    const restore = replace(prototype, 'next', function (this: Generator, value: unknown) {
      calls++;
      return next.call(this, value);
    });
    try {
      useStore(await form(''), name);
      assert.equal(calls, 0);
      useStore(await form('generators/'), name);
      assert.ok(calls > OPERATIONS, 'the other form runs them');
    } finally {
      restore();
    }
  });
}
