import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IndexName } from '../api.ts';
import { inspectSync } from '../open.ts';
import { DamagedPool, Work } from './support/damaged-pool.ts';

/** Of all words and values, each 41st; STEPWELL_DAMAGE_STEP=1 asks for all of them. */
const STEP = Number(process.env.STEPWELL_DAMAGE_STEP ?? 41);
/** The words of a root's first lines: parts, depth, first entries. */
const ROOT_WORDS = 24;

function valuesFor(word: bigint): bigint[] {
  const flips = [0n, 5n, 31n, 35n, 36n, 47n, 63n].map((bit) => word ^ (1n << bit));
  return [0n, -1n, 1n, 64n, 2n ** 40n, word + 1n, word - 1n, ...flips];
}

for (const index of ['race', 'sephash', 'chime', 'hopscotch', 'shard', 'hstore'] as IndexName[]) {
  test(`${index}: damaged words of the root and the chunk table end calls soon`, (t) => {
    const work = new Work(t);
    const killed = t.mock.method(process, 'kill', () => true);
    const sample = new DamagedPool(index, work);
    const raw = new Set<string>();
    let cases = 0;
    for (const { region, index: at, name } of sample.rootAndChunkWords(ROOT_WORDS)) {
      for (const value of valuesFor(sample.regions[region][at])) {
        if (cases++ % STEP !== 0) continue;
        sample.restore();
        sample.regions[region][at] = value;
        for (const [call, outcome] of sample.use(cases % 3 === 0)) {
          if (outcome.startsWith('raw'))
            raw.add(`${name} = ${BigInt.asUintN(64, value).toString(16)}: ${call}: ${outcome}`);
        }
      }
    }
    sample.restore();
    assert.deepEqual([...raw], []);
    assert.equal(killed.mock.callCount(), 0);
    assert.ok(cases > 0 && inspectSync(sample.handle));
  });
}

test('hstore: no bit of a lease keeps calls waiting for a primary that was never elected', (t) => {
  const sample = new DamagedPool('hstore', new Work(t));
  const [lease] = sample.rootAndChunkWords(1);
  const raw: string[] = [];
  for (let bit = 30n; bit < 64n; bit += 3n) {
    sample.restore();
    sample.regions[lease.region][lease.index] = BigInt.asIntN(64, 1n << bit);
    const outcomes = sample.use(false);
    assert.ok(outcomes.some(([, outcome]) => outcome === 'SW_POOL_CORRUPT'));
    for (const [call, outcome] of outcomes) {
      if (outcome.startsWith('raw')) raw.push(`bit ${bit}: ${call}: ${outcome}`);
    }
  }
  assert.deepEqual(raw, []);
});
