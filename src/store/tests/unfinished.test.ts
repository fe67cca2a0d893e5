/** Makers of stores who die in the middle of it, and what becomes of the chunks that they took. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { IndexKind } from '../../indexes/contract.ts';
import { createStore, INDEX_KINDS, openIndex } from '../../indexes/kinds.ts';
import { sweep } from '../../indexes/sweep.ts';
import { currentThread } from '../../pool/clients/thread-identity.ts';
import { BLOCK_UNITS_MAX } from '../../pool/layout.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import { CHUNK_FREE, CHUNK_INTENTS, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Operation } from '../../verbs/index.ts';
import { checkStores } from '../administration/check.ts';
import type { OpenOptions } from '../api.ts';
import { checkSync, openSync } from '../open.ts';
import { createInMemory } from '../places/pool-place.ts';
import type { CheckReport } from '../reports.ts';
import { Stepped } from './support/by-hand.ts';
import { throwsCode } from './support/codes.ts';
import { freshUrl, keepOpen } from './support/pools.ts';
import { Child } from './support/processes/children.ts';

const MIB = 2 ** 20;
/** Above what the kernel gives to anybody. */
const NOBODY = 2 ** 22 - 1;

/** Small indexes, of which most take a span. */
const WISHES: Readonly<Record<string, Record<string, number>>> = {
  race: { groups: 600, maxDepth: 6 },
  sephash: { maxDepth: 8 },
  shard: { buckets: 64 },
  hopscotch: { maxDepth: 8 },
  hstore: { buckets: 64, rows: 32, log: 64 },
};

/** A client that lives, and one of which the system says whether its thread is there. */
function stage(makerLives: boolean) {
  const { fabric, parameters, source } = createInMemory({ size: 16 * MIB, maxClients: 8 });
  const survivor = new LocalPool(fabric, parameters, source);
  survivor.join('survivor');
  const [race] = INDEX_KINDS;
  const shape = race.parameters({ groups: 8, maxDepth: 4 }, MIB, 1);
  const entry = survivor.run(createStore(survivor, 'there', race, shape));
  const index = survivor.run(openIndex(survivor, entry));
  const self = currentThread();
  const thread = makerLives ? self : { ...self, pid: NOBODY, tid: NOBODY };
  const maker = new LocalPool(fabric, parameters, source, thread);
  maker.run(maker.membership.join('maker'));
  const { id: owner, incarnation } = maker.membership;
  maker.allocator.client = { owner, incarnation };
  return { survivor, index, maker };
}

/** Without those of intent slots, which are the pool's and stay. */
function usedChunks(pool: LocalPool): number {
  const states = pool.run(pool.chunks.words()).map(([, word]) => unpackChunk(word).state);
  return states.filter((state) => state !== CHUNK_FREE && state !== CHUNK_INTENTS).length;
}

function check(pool: LocalPool): CheckReport {
  return pool.run(checkStores(pool, 'memory:', (entry) => openIndex(pool, entry)));
}

/** Whether a maker that lives through `steps` doorbells, and half of the next, makes the store. */
function dieMaking(kind: IndexKind, steps: number): { made: boolean; left: number } {
  const { survivor, index, maker } = stage(false);
  const { name } = kind.manifest;
  const before = usedChunks(survivor);
  const parameters = kind.parameters(WISHES[name] ?? {}, 16 * MIB, 7);
  const making = new Stepped(maker.fabric, createStore(maker, 'new', kind, parameters));
  while (!making.done && making.steps < steps) making.step();
  if (making.done) return { made: true, left: 0 };
  making.dieAfter(making.verbs >> 1);
  survivor.recoverGone();
  const where = `${name}, dead after ${steps} doorbells`;
  const report = check(survivor);
  assert.deepEqual(report.problems, [], where);
  const left = report.unfinished.reduce((sum, { chunks }) => sum + chunks, 0);
  if (survivor.run(survivor.catalog.find('new'))) assert.equal(left, 0, where);
  else {
    assert.equal(left, usedChunks(survivor) - before, where);
    for (const one of report.unfinished) assert.equal(one.index, name, where);
    for (let i = 0; i < 2; i++) survivor.run(sweep(survivor, index));
    assert.ok(usedChunks(survivor) <= before, where);
    assert.deepEqual(check(survivor).unfinished, [], where);
  }
  const other = survivor.run(createStore(survivor, 'new', kind, parameters));
  survivor.run(openIndex(survivor, other));
  assert.deepEqual(check(survivor).problems, [], where);
  return { made: false, left };
}

for (const kind of INDEX_KINDS) {
  test(`${kind.manifest.name}: a maker may die anywhere, and a sweep gives back what it took`, () => {
    let steps = 0;
    let most = 0;
    for (;;) {
      const { made, left } = dieMaking(kind, steps);
      if (made) break;
      most = Math.max(most, left);
      // All doorbells of a small index, and some of one that writes its tables piece by piece.
      steps += steps < 60 ? 1 : 7;
    }
    assert.ok(steps > 10 && most > 0, `${steps} doorbells, ${most} chunks`);
  });
}

test("a store that is being made is nobody else's to give back", () => {
  const { survivor, index, maker } = stage(true);
  const hstore = INDEX_KINDS.find(({ manifest }) => manifest.name === 'hstore') as IndexKind;
  const parameters = hstore.parameters(WISHES.hstore, 16 * MIB, 7);
  const before = usedChunks(survivor);
  const making = new Stepped(maker.fabric, createStore(maker, 'new', hstore, parameters));
  while (usedChunks(survivor) < before + 2) making.step();
  assert.deepEqual(check(survivor).unfinished, []);
  assert.equal(survivor.run(survivor.catalog.releaseUnfinished()), 0);
  assert.equal(survivor.run(survivor.catalog.releaseUnfinished()), 0);
  making.finish();
  assert.equal(maker.run(maker.catalog.find('new'))?.ready, true);
  survivor.run(sweep(survivor, index));
  assert.deepEqual(check(survivor).problems, []);
});

test('the next maker of a store has what a dead one took, before a client has cleaned up', () => {
  const { survivor, maker } = stage(false);
  const [race] = INDEX_KINDS;
  const parameters = race.parameters({ groups: 8, maxDepth: 4 }, MIB, 1);
  const { chunksMax, reservedChunks } = survivor.layout;
  const takeAll = function* (id: number): Operation<number> {
    for (;;) yield* maker.allocator.allocate(id, BLOCK_UNITS_MAX);
  };
  maker.run(maker.reclamation.quiesce());
  const making = new Stepped(maker.fabric, maker.catalog.findOrCreate('new', 'race', [], takeAll));
  while (usedChunks(survivor) < chunksMax - reservedChunks) making.step();
  survivor.run(createStore(survivor, 'new', race, parameters));
  assert.deepEqual(check(survivor).problems, []);
});

test('what a killed process left is named by a check, and a full pool takes it up', async (t: TestContext) => {
  const url = freshUrl(t, 'file');
  const options: OpenOptions = {
    size: 6 * MIB,
    maxClients: 8,
    index: { kind: 'race', groups: 8, maxDepth: 8 },
  };
  const store = keepOpen(t, openSync(url, options));
  const hstore = { kind: 'hstore', buckets: 2 ** 14, rows: 64, log: 64 } as const;
  const child = new Child(t);
  const order = { kind: 'die', url, options: { store: 'new', index: hstore } } as const;
  await assert.rejects(child.ask({ ...order, chunks: 4 }), /signal SIGKILL/);
  const { unfinished, problems } = checkSync(url);
  assert.deepEqual(problems, []);
  assert.equal(unfinished.length, 1);
  const [{ index, chunks, bytes }] = unfinished;
  assert.deepEqual([index, bytes], ['hstore', chunks * 256 * 1024]);
  assert.ok(chunks >= 3, `${chunks} chunks`);
  let stored = 0;
  const fill = () => {
    for (; ; stored++) store.set(`key ${stored}`, 'v'.repeat(1000));
  };
  throwsCode('SW_POOL_FULL', fill);
  assert.deepEqual(checkSync(url).unfinished, []);
  assert.deepEqual(checkSync(url).problems, []);
  assert.ok(stored > 3 * 200, `${stored} records`);
});
