import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CATALOG_OFFSET, SUPERBLOCK } from '../../pool/layout.ts';
import { Prng } from '../../random/prng.ts';
import { rounds } from '../../random/tests/support/rounds.ts';
import type { IndexName } from '../api.ts';
import { checkSync, inspectSync, openSync } from '../open.ts';
import { codeOf } from './support/codes.ts';
import { DamagedPool, damage, Work } from './support/damaged-pool.ts';

const INDEXES: readonly IndexName[] = ['race', 'sephash', 'shard', 'chime', 'hstore', 'hopscotch'];
/** Damaged pools of each index; STEPWELL_DAMAGE asks for more. */
const ROUNDS = Number(process.env.STEPWELL_DAMAGE ?? rounds(4, 80));
const SEED = Number(process.env.STEPWELL_SEED ?? 1);

for (const index of INDEXES) {
  test(`${index}: any damaged word leads soon to an answer or to an error with a code`, (t) => {
    const work = new Work(t);
    const killed = t.mock.method(process, 'kill', () => true);
    const sample = new DamagedPool(index, work);
    const words = sample.words();
    const random = Prng.fromSeed(SEED);
    const raw = new Set<string>();
    for (const [call, outcome] of sample.use(true)) {
      if (outcome.startsWith('raw')) raw.add(`undamaged: ${call}: ${outcome}`);
    }
    for (let round = 0; round < ROUNDS; round++) {
      sample.restore();
      // Words that many calls use in every other round: tables, roots, directories.
      const word =
        words[random.below(round % 2 === 0 ? Math.min(400, words.length) : words.length)];
      const what = damage(sample, word, random);
      for (const [call, outcome] of sample.use(round % 4 === 0)) {
        if (outcome.startsWith('raw')) raw.add(`${what}: ${call}: ${outcome}`);
      }
    }
    sample.restore();
    assert.deepEqual([...raw], [], `STEPWELL_SEED=${SEED} STEPWELL_DAMAGE=${ROUNDS}`);
    // Signal 0 only asks whether there is such a process.
    const signals = killed.mock.calls.map(({ arguments: [, signal] }) => signal);
    assert.deepEqual(
      signals.filter((signal) => signal !== 0),
      [],
    );
  });
}

test('words that name a client beyond the table, or contradict the layout, are damage', (t) => {
  const sample = new DamagedPool('race', new Work(t));
  const cases: [at: number, value: bigint, call: () => unknown][] = [
    [SUPERBLOCK.catalogLock, 0xfffn, () => checkSync(sample.handle)],
    [SUPERBLOCK.catalogLock, 0xfffn, () => openSync(sample.handle, { store: 'another' })],
    [SUPERBLOCK.frontier, 0n, () => openSync(sample.handle, { store: 'another' })],
    [SUPERBLOCK.regionCount, 2n ** 40n, () => inspectSync(sample.handle)],
    [CATALOG_OFFSET + 16, 2n ** 62n - 1n, () => openSync(sample.handle)],
  ];
  for (const [at, value, call] of cases) {
    sample.restore();
    sample.regions[0][at >> 3] = value;
    assert.equal(codeOf(call), 'SW_POOL_CORRUPT', `word ${at}: ${call}`);
  }
  sample.restore();
});

test('parameters that no creator could have asked for are damage, of whatever size', (t) => {
  const work = new Work(t);
  for (const index of INDEXES) {
    const sample = new DamagedPool(index, work);
    const open = () => openSync(sample.handle, { create: false }).close();
    for (let at = CATALOG_OFFSET + 16; at < CATALOG_OFFSET + 64; at += 8) {
      for (const value of [0x7fff_ffff_7fff_ffffn, 0x4000_0000_4000_0000n, -1n]) {
        sample.restore();
        sample.regions[0][at >> 3] = value;
        work.begin();
        const outcome = codeOf(open);
        // A seed may have any value, and behind the last parameter nobody looks.
        const isAny = at > CATALOG_OFFSET + 16 && outcome === 'returned undefined';
        assert.ok(isAny || outcome === 'SW_POOL_CORRUPT', `${index} at ${at}: ${outcome}`);
        assert.equal(work.excess(sample.bytes), undefined, `${index} at ${at}`);
      }
    }
  }
});
