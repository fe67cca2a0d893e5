/** A check over a network looks at many records at a time, and says what it says one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openIndex } from '../../../indexes/kinds.ts';
import type { Batch, Fabric, Operation } from '../../../verbs/index.ts';
import { checkStores } from '../../administration/check.ts';
import type { IndexChoice, IndexName } from '../../api.ts';
import { attach, check, open, openSync } from '../../open.ts';
import { freshUrl, keepOpen, numbered, SMALL } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const KEYS = numbered('key ', 300);

/**
 * Runs the operations of all items a doorbell each in turn, and counts those turns. Items of items
 * (records of leaves) have theirs meanwhile: of these the most counts.
 */
class Together {
  turns = 0;
  readonly #fabric: Fabric;
  #depth = 0;
  #within = 0;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  *each<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
    let turns = 0;
    const isWithin = this.#depth++ > 0;
    let left = items.map((item) => act(item));
    for (; left.length > 0; turns++) {
      const going: Operation<void>[] = [];
      for (const operation of left) {
        const step: IteratorResult<Batch, void> = operation.next();
        if (step.done) continue;
        if (isWithin) this.#fabric.execute(step.value);
        else yield step.value;
        going.push(operation);
      }
      left = going;
    }
    this.#depth--;
    if (isWithin) this.#within = Math.max(this.#within, turns);
    else [this.turns, this.#within] = [this.turns + turns + this.#within, 0];
  }
}

/** Items of leaves are records only when they do not stand in the leaf. */
const INDEXES: Partial<Record<IndexName, IndexName | IndexChoice>> = {
  race: 'race',
  shard: 'shard',
  sephash: 'sephash',
  hstore: 'hstore',
  chime: { kind: 'chime', inlineBytes: 0 },
  hopscotch: { kind: 'hopscotch', inlineBytes: 0 },
};

for (const [name, index] of Object.entries(INDEXES)) {
  test(`${name}: the records of a check are in flight together`, (t) => {
    const url = freshUrl(t, 'file');
    const store = keepOpen(t, openSync(url, { ...SMALL, index }));
    for (const key of KEYS) store.set(key, `of ${key}`);
    const { pool } = attach(url, { create: false }).client;
    const together = new Together(pool.fabric);
    const each: Together['each'] = (items, act) => together.each(items, act);
    const report = (options: { each?: Together['each'] }) =>
      pool.run(checkStores(pool, url, (entry) => openIndex(pool, entry), options));
    assert.deepEqual(report({ each }), report({}));
    // A few turns, however many records there are.
    assert.ok(together.turns > 0 && together.turns < KEYS.length / 10, `${together.turns} turns`);
  });
}

test('shard: a check of a store on three memory nodes', async (t) => {
  const { url } = await startNodes(t, 3);
  const store = await open(url, { index: 'shard', maxClients: 8 });
  await store.setMany(KEYS.map((key) => [key, `of ${key}`]));
  await store.close();
  const { problems, stores, unreachable } = await check(url);
  assert.deepEqual(problems, []);
  assert.equal(stores[0].records, KEYS.length);
  assert.equal(unreachable, 0);
});
