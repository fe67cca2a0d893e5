import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createSync, destroySync } from '../../../src/store/open.ts';
import { type CopyKind, judgeTears, mapArea, sumLitmus, tearLitmus } from '../atomicity.ts';

const NAME = `torture-litmus-${process.pid}`;
const URL = `shm:${NAME}`;
const PATH = `/dev/shm/stepwell-${NAME}`;
const REGION_BYTES = 8 * 2 ** 20;
/** Each test has an area of its own in the pool's unused last MiB. */
const area = (test: number) => REGION_BYTES - 2 ** 20 + test * 128 * 1024;

describe('mapped memory between processes', { timeout: 180_000 }, () => {
  before(() => createSync(URL, { size: REGION_BYTES, regionSize: REGION_BYTES }));
  after(() => destroySync(URL, { force: true }));

  it('atomics and the CAS and FAA verbs give exact sums', async () => {
    const [processes, operations] = [3, 40_000];
    const all = processes * operations;
    const sums = await sumLitmus(PATH, area(0), processes, operations);
    assert.deepEqual(sums, {
      add64: all,
      swap64: all,
      add32: all,
      swap32: all,
      verbAdd: all,
      verbSwap: all,
    });
  });

  it('READ and WRITE never tear a word, while a copy by halves does', async (t) => {
    const control = await tearLitmus(PATH, area(1), 'int32', 20_000_000);
    const copies: [CopyKind, number][] = [
      ['float64', 3_000_000],
      ['memcpy', 200_000],
    ];
    for (const [test, [copy, rounds]] of copies.entries()) {
      const answer = await tearLitmus(PATH, area(2 + test), copy, rounds);
      const verdict = judgeTears(answer, control);
      t.diagnostic(`${copy}: ${verdict}, ${answer.changes} changes, control ${control.torn} torn`);
      assert.notEqual(verdict, 'violated', `${answer.torn} words torn by ${copy}`);
      // Without a second processor nothing can tear: then nothing is proven.
      if (verdict === 'inconclusive')
        t.skip(`inconclusive: ${JSON.stringify({ answer, control })}`);
    }
  });

  it('a torn word would be a violation, and nothing is proven without the control', () => {
    const torn = { torn: 1, rounds: 9000, changes: 9000 };
    const whole = { torn: 0, rounds: 9000, changes: 9000 };
    assert.equal(judgeTears(torn, torn), 'violated');
    assert.equal(judgeTears(whole, whole), 'inconclusive');
    assert.equal(judgeTears({ ...whole, changes: 1 }, torn), 'inconclusive');
    assert.equal(judgeTears(whole, torn), 'held');
  });

  it('the area is shared by mappings of the same file', () => {
    const [a, b] = [mapArea(PATH, area(6)), mapArea(PATH, area(6))];
    Atomics.store(a.region.i32, 5, 77);
    assert.equal(Atomics.load(b.region.i32, 5), 77);
  });
});
