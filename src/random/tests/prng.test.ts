import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Prng } from '../prng.ts';

describe('Prng', () => {
  it('gives the published sequence of xoshiro128** from state 1, 2, 3, 4', () => {
    const prng = Prng.fromState(1, 2, 3, 4);
    const words = Array.from({ length: 10 }, () => prng.next32());
    assert.deepEqual(
      words,
      [
        11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597,
        4258142804,
      ],
    );
  });

  it('replays a run from its seed and gives other runs for other seeds', () => {
    const draw = (seed: number) => {
      const prng = Prng.fromSeed(seed);
      return Array.from({ length: 8 }, () => prng.next32()).join();
    };
    const seeds = [0, 1, 2, -1, 2 ** 32, 2 ** 32 + 1, 2 ** 52];
    assert.equal(new Set(seeds.map(draw)).size, seeds.length);
    for (const seed of seeds) assert.equal(draw(seed), draw(seed));
  });

  it('keeps forked streams apart from their parent and from each other', () => {
    const firstOf = (label: number) => Prng.fromSeed(7).fork(label).next32();
    assert.equal(firstOf(1), firstOf(1));
    assert.notEqual(firstOf(1), firstOf(2));
    const parent = Prng.fromSeed(7);
    const child = parent.fork(1);
    assert.notEqual(parent.next32(), child.next32());
  });

  it('fills [0, bound) evenly', () => {
    const prng = Prng.fromSeed(3);
    const counts = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) counts[prng.below(10)]++;
    // Nine degrees of freedom: 27.9 would be passed once in a thousand seeds.
    const chiSquare = counts.reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0);
    assert.ok(chiSquare < 27.9, `chi-square ${chiSquare}`);
  });

  it('draws doubles of [0, 1) with their mean at a half', () => {
    const prng = Prng.fromSeed(4);
    let sum = 0;
    for (let i = 0; i < 100_000; i++) {
      const double = prng.nextDouble();
      assert.ok(double >= 0 && double < 1);
      sum += double;
    }
    assert.ok(Math.abs(sum / 100_000 - 0.5) < 0.005);
  });

  it('refuses the zero state, from which it would never leave', () => {
    assert.throws(() => Prng.fromState(0, 0, 0, 0), RangeError);
  });
});
