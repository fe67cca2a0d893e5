import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import { blocksPerChunk } from '../../layout.ts';
import { blocksWord, CHUNK_DRAINING, type ChunkWord, RECYCLED, useOf } from '../chunk-word.ts';

const MIB = 2 ** 20;
const CATALOG = 60;
const UNITS = 3;
const USE = useOf(CATALOG, UNITS);
const BLOCKS = blocksPerChunk(UNITS);
const OTHERS = blocksWord(CATALOG, 5, blocksPerChunk(5));
const any = () => true;
const ofUse = (catalog: number, units: number) => catalog === CATALOG && units === UNITS;

test('a reading of the chunk table lists what can be used, and replaces the one before', (t) => {
  const { pool } = clientByHand(t, { size: 16 * MIB });
  const { chunks } = pool;
  const { survey } = chunks;
  const take = (word: ChunkWord) => pool.run(chunks.take(word, word)).chunk;
  const free = [10, BLOCKS / 2 + 1, 300, 20].map(Math.floor);
  const own = free.map((count) => take(blocksWord(CATALOG, UNITS, count)));
  const draining = take({ ...blocksWord(CATALOG, UNITS, BLOCKS - 1), state: CHUNK_DRAINING });
  const emptied = take(OTHERS);
  for (let round = 0; round < 2; round++) {
    pool.run(survey.read());
    assert.deepEqual([...survey.emptied], [emptied]);
    assert.equal(survey.recycled, 0);
    // Half of one chunk is free, but in all chunks together fewer blocks than a chunk has.
    assert.equal(survey.hasSlack(ofUse), false);
    assert.equal(survey.takePartlyFree(USE, BLOCKS, any), undefined);
    assert.equal(
      survey.takePartlyFree(USE, 10, (chunk) => chunk !== own[1]),
      own[2],
    );
    assert.equal(
      survey.takeFullest(USE, (chunk) => chunk !== own[0]),
      own[3],
    );
    assert.equal(survey.takeFullest(useOf(CATALOG, 7), any), undefined);
  }
  pool.run(survey.read());
  const inOrder = own.map(() => survey.takePartlyFree(USE, 1, any));
  assert.deepEqual(inOrder, [own[1], own[2], own[3], own[0]]);
  assert.equal(survey.takePartlyFree(USE, 1, any), undefined, 'each is listed once');
  // Chunks that are drained have no blocks to claim.
  const counted = { free: free.reduce((sum, count) => sum + count), blocks: 4 * BLOCKS };
  assert.deepEqual(pool.run(survey.count(USE, 0)), counted);
  const most = pool.run(survey.emptiest(Math.random, (chunk) => chunk !== emptied));
  assert.equal(most, draining);
  const carved = pool.run(survey.emptiest(Math.random, (chunk) => own.includes(chunk)));
  assert.equal(carved, own[1]);
});

test('slack is judged anew after a reading, a claim and a return', (t) => {
  const { pool } = clientByHand(t, { size: 16 * MIB });
  const { chunks } = pool;
  const { survey } = chunks;
  const word = blocksWord(CATALOG, UNITS, Math.ceil(BLOCKS / 2));
  const own = [0, 1].map(() => pool.run(chunks.take(word, word)).chunk);
  assert.equal(survey.hasSlack(ofUse), false, 'nothing was read');
  pool.run(survey.read());
  assert.equal(survey.hasSlack(ofUse), true);
  assert.equal(survey.hasSlack(any), true);
  assert.equal(
    survey.hasSlack(() => false),
    false,
  );
  survey.takeFullest(USE, any);
  assert.equal(survey.hasSlack(ofUse), false, 'a chunk less');
  pool.run(chunks.release(own[0], word));
  pool.run(survey.read());
  assert.equal(survey.hasSlack(ofUse), false);
  assert.equal(survey.recycled, 1);
  assert.equal(survey.takeRecycled(any), own[0]);
  assert.equal(pool.run(chunks.swap(own[0], RECYCLED, word)), true);
  pool.run(survey.read());
  assert.equal(survey.hasSlack(ofUse), true);
});

test('a count that proved wrong is left out as long as it is the same', (t) => {
  const { pool } = clientByHand(t, { size: 16 * MIB });
  const { chunks } = pool;
  const { survey } = chunks;
  const word = blocksWord(CATALOG, UNITS, 40);
  const { chunk } = pool.run(chunks.take(word, word));
  survey.noteFutile(chunk, 40);
  pool.run(survey.read());
  assert.equal(survey.takeFullest(USE, any), undefined);
  assert.equal(pool.run(survey.count(USE, 0)).free, 0);
  assert.equal(survey.forgetFutile(), true);
  pool.run(survey.read());
  assert.equal(survey.takeFullest(USE, any), chunk);
});
