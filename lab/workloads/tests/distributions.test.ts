import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Prng } from '../../../src/random/prng.ts';
import {
  DISTRIBUTION_NAMES,
  type Distribution,
  distribution,
  Latest,
  ScrambledZipf,
  Uniform,
  YCSB_ZIPF,
  ZipfRanks,
  zeta,
} from '../distributions.ts';

const DRAWS = 200_000;

function countsOf(source: { next(): number }, records: number, draws = DRAWS): Float64Array {
  const counts = new Float64Array(records);
  for (let i = 0; i < draws; i++) {
    const index = source.next();
    assert.ok(Number.isInteger(index) && index >= 0 && index < records, `index ${index}`);
    counts[index]++;
  }
  return counts;
}

/** Five standard deviations of a binomial count: fixed seeds never come near it by chance. */
function assertShare(count: number, share: number, what: string, draws = DRAWS): void {
  const bound = 5 * Math.sqrt(draws * share * (1 - share));
  const expected = draws * share;
  assert.ok(Math.abs(count - expected) <= bound, `${what}: ${count} draws, expected ${expected}`);
}

describe('zeta', () => {
  it('agrees with the plain sum on both sides of the summed terms', () => {
    for (const n of [1, 2, 100, 10_000, 10_001, 300_000]) {
      let sum = 0;
      for (let i = 1; i <= n; i++) sum += i ** -YCSB_ZIPF;
      const error = Math.abs(zeta(n, YCSB_ZIPF) / sum - 1);
      assert.ok(error < 1e-11, `relative error ${error} at ${n}`);
    }
  });

  it("gives YCSB's own constant for ten billion items", () => {
    // ScrambledZipfianGenerator.ZETAN of YCSB.
    assert.ok(Math.abs(zeta(1e10, YCSB_ZIPF) - 26.46902820178302) < 1e-6);
  });
});

describe('Uniform', () => {
  it('draws every record equally often', () => {
    const counts = countsOf(new Uniform(100, Prng.fromSeed(1)), 100);
    counts.forEach((count, index) => {
      assertShare(count, 1 / 100, `record ${index}`);
    });
  });
});

describe('ZipfRanks', () => {
  it('gives the two hottest ranks their analytic shares', () => {
    for (const records of [2, 10, 1000, 1_000_000]) {
      const zipf = new ZipfRanks(records, Prng.fromSeed(2));
      let hottest = 0;
      let second = 0;
      for (let i = 0; i < DRAWS; i++) {
        const rank = zipf.next();
        if (rank === 0) hottest++;
        else if (rank === 1) second++;
      }
      assertShare(hottest, zipf.share(0), `rank 0 of ${records}`);
      assertShare(second, zipf.share(1), `rank 1 of ${records}`);
    }
  });

  it('gives the hottest of a million records 6.5 % of the requests', () => {
    const zipf = new ZipfRanks(1_000_000, Prng.fromSeed(2));
    assert.ok(Math.abs(zipf.share(0) - 0.065) < 0.0005, `share ${zipf.share(0)}`);
  });

  it('keeps the cumulative shares within the 2 % of its approximation', () => {
    const records = 10_000;
    const counts = countsOf(new ZipfRanks(records, Prng.fromSeed(3)), records);
    const zipf = new ZipfRanks(records, Prng.fromSeed(3));
    let drawn = 0;
    let expected = 0;
    for (let rank = 0; rank < records; rank++) {
      drawn += counts[rank] / DRAWS;
      expected += zipf.share(rank);
      const error = Math.abs(drawn - expected);
      assert.ok(error < 0.02, `up to rank ${rank}: drawn ${drawn}, analytic ${expected}`);
    }
    assert.ok(Math.abs(expected - 1) < 1e-9);
  });

  it('never leaves the table, whatever its size', () => {
    for (const records of [1, 2, 3, 5, 17]) {
      countsOf(new ZipfRanks(records, Prng.fromSeed(4)), records, 20_000);
    }
  });

  it('refuses what it cannot draw from', () => {
    assert.throws(() => new ZipfRanks(0, Prng.fromSeed(0)), RangeError);
    assert.throws(() => new ZipfRanks(10, Prng.fromSeed(0), 1), RangeError);
  });
});

describe('ScrambledZipf', () => {
  it('moves the hot records away from the start and keeps their shares', () => {
    const records = 1000;
    const zipf = new ScrambledZipf(records, Prng.fromSeed(5));
    const counts = countsOf(zipf, records);
    for (const rank of [0, 1]) {
      assertShare(counts[zipf.recordOfRank(rank)], zipf.share(rank), `rank ${rank}`);
    }
    let low = 0;
    for (let index = 0; index < 10; index++) low += counts[index];
    assert.ok(low < 0.2 * DRAWS, 'the first ten indexes are not the hot ones');
    assert.equal(new Set(Array.from(counts.keys(), (r) => zipf.recordOfRank(r))).size, records);
  });
});

describe('Latest', () => {
  it('draws the newest record most, also after more were inserted', () => {
    const latest = new Latest(1000, Prng.fromSeed(6));
    assertShare(countsOf(latest, 1000)[999], latest.share(0), 'newest of 1000');
    for (let i = 0; i < 50; i++) assert.equal(latest.insert(), 1000 + i);
    const counts = countsOf(latest, 1050);
    assertShare(counts[1049], latest.share(0), 'newest of 1050');
    assertShare(counts[1048], latest.share(1), 'second newest of 1050');
  });

  it('grows its shares as if it had been made with that size', () => {
    const grown = new Latest(1000, Prng.fromSeed(6));
    for (let i = 0; i < 500; i++) grown.insert();
    const made = new Latest(1500, Prng.fromSeed(6));
    assert.ok(Math.abs(grown.share(0) - made.share(0)) < 1e-12);
  });
});

describe('distribution', () => {
  it('replays the same requests from the same seed', () => {
    for (const name of DISTRIBUTION_NAMES) {
      const draw = (seed: number) => {
        const source: Distribution = distribution(name, 500, Prng.fromSeed(seed));
        assert.equal(source.name, name);
        return Array.from({ length: 50 }, () => source.next()).join();
      };
      assert.equal(draw(8), draw(8));
      assert.notEqual(draw(8), draw(9));
    }
  });
});
