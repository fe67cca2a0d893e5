/**
 * Zeros in a pool whose clients have all left, or have been killed and swept: `check` tells of
 * every record that they cost.
 */
import assert from 'node:assert/strict';
import { closeSync, copyFileSync, openSync as openFile, readFileSync, writeSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { ALWAYS } from '../../../indexes/contract.ts';
import { createStore, kindNamed, openIndex } from '../../../indexes/kinds.ts';
import { currentThread } from '../../../pool/clients/thread-identity.ts';
import { LocalPool } from '../../../pool/local-pool.ts';
import { Prng } from '../../../random/prng.ts';
import type { IndexChoice, IndexName, OpenOptions, Store } from '../../api.ts';
import { checkSync, openSync } from '../../open.ts';
import { createInMemory } from '../../places/pool-place.ts';
import { requestFor } from '../../tests/support/by-hand.ts';
import { freshUrl, numbered, pathOf } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';
import { checkStores } from '../check.ts';

const KEYS = numbered('key ', 400);
const GONE = KEYS.slice(350);
const REPLACED = KEYS.slice(0, 100);
const KEPT = KEYS.slice(0, 350);
const OPTIONS: OpenOptions = {
  size: 4 * 2 ** 20,
  maxClients: 8,
};
const INDEXES: Partial<Record<IndexName, IndexChoice>> = {
  race: { kind: 'race', groups: 8, associativity: 4 },
  shard: { kind: 'shard', buckets: 4, level1: 16, level2: 4 },
  sephash: { kind: 'sephash', segmentBytes: 128 },
};
/** Behind the superblock, the catalog and the client table. */
const CHUNKS_AT = 256 * 1024;
/** At which a pool is damaged, one after the other. */
const PLACES = 6;
/** Most places that are tried until one costs a key: what stands where differs from run to run. */
const PLACES_MAX = 50 * PLACES;

/** The path of a pool in which nobody has anything left to do. */
function closedPool(t: TestContext, index: IndexName): string {
  const url = freshUrl(t, 'file');
  const store = openSync(url, { ...OPTIONS, index: INDEXES[index] ?? index });
  for (const key of KEYS) store.set(key, `of ${key}`.repeat(1 + (key.length % 5)));
  for (const key of REPLACED) store.set(key, 'replaced');
  for (const key of GONE) store.delete(key);
  store.close();
  const { problems, leftover, unreachable } = checkSync(url);
  assert.deepEqual(
    { problems, leftover, unreachable },
    { problems: [], leftover: { blocks: 0, bytes: 0 }, unreachable: 0 },
  );
  return pathOf(url);
}

/** The same after a client was killed. */
async function killedPool(t: TestContext, index: IndexName): Promise<string> {
  const path = closedPool(t, index);
  const url = `file:${path}`;
  const child = new Child(t);
  // In the middle of a burst: a client gives back what it has before it goes idle.
  child.process.send({ kind: 'churn', url, options: { index }, keys: 100, dies: true });
  await child.exited;
  return path;
}

/** The same after a sweep of what it had left. */
async function sweptPool(t: TestContext, index: IndexName): Promise<string> {
  const path = await killedPool(t, index);
  const url = `file:${path}`;
  const { problems, unreachable, stores } = checkSync(url, { sweep: true });
  assert.deepEqual(problems, []);
  // HStore's server marks records, so none that was removed is taken for a lost one.
  assert.equal(unreachable > 0, index !== 'hstore');
  assert.equal(stores[0].unswept, 1);
  const after = checkSync(url);
  assert.deepEqual(after.problems, []);
  assert.deepEqual([after.unreachable, after.leftover.blocks, after.stores[0].unswept], [0, 0, 0]);
  return path;
}

/** Zeros so many bytes where they cost keys, at places that the seed chooses. */
function assertDamageIsFound(path: string, bytes: number, places: number): void {
  const used = usedWords(path);
  const random = Prng.fromSeed(bytes);
  let damaged = 0;
  for (let place = 0; place < places || (damaged === 0 && place < PLACES_MAX); place++) {
    const word = used[random.below(used.length)];
    const at = Math.floor(word / bytes) * bytes;
    if (lostKeys(zeroed(path, at, bytes)) === 0) continue;
    damaged++;
    const { problems } = checkSync(zeroed(path, at, bytes));
    assert.notEqual(problems.length, 0, `${bytes} bytes at ${at}`);
  }
  assert.ok(damaged > 0);
}

/** A copy of the pool in which so many bytes are 0. */
function zeroed(path: string, at: number, bytes: number): string {
  const copy = `${path}.copy`;
  copyFileSync(path, copy);
  const file = openFile(copy, 'r+');
  writeSync(file, new Uint8Array(bytes), 0, bytes, at);
  closeSync(file);
  return `file:${copy}`;
}

/** Offsets of words that are not 0, among them those of the records. */
function usedWords(path: string): number[] {
  const bytes = readFileSync(path);
  const used: number[] = [];
  for (let at = CHUNKS_AT; at < bytes.length; at += 8) {
    if (bytes.readBigUInt64LE(at) !== 0n) used.push(at);
  }
  return used;
}

/** What a call does: what it returns, or the code of what it raises. Anything else is raised. */
function outcome<T>(call: () => T): T | string {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof StepwellError)) throw error;
    return error.code;
  }
}

function lostKeys(url: string): number {
  const store = outcome(() => openSync(url, { create: false }));
  if (typeof store === 'string') return KEPT.length;
  const isLost = (key: string) => {
    const value = outcome(() => store.get(key));
    return value === undefined || (typeof value === 'string' && value.startsWith('SW_'));
  };
  const lost = KEPT.filter(isLost).length;
  endAll(store);
  return lost;
}

/** No call of a damaged store waits for what will never be: each says that the pool is damaged. */
function endAll(store: Store): void {
  const calls = [
    () => store.set(KEPT[7], 'x'.repeat(99)),
    () => store.delete(KEPT[9]),
    () => [...store.keys()].length,
  ];
  for (const call of calls) assert.notEqual(outcome(call), 'SW_CONTENTION');
  store.close();
}

for (const index of ['race', 'sephash', 'shard', 'hstore'] as const) {
  test(`${index}: after a client was killed, the records that zeros cost are counted`, async (t) => {
    const path = await killedPool(t, index);
    const before = checkSync(zeroed(path, CHUNKS_AT, 0));
    assert.deepEqual(before.problems, []);
    const used = usedWords(path);
    const random = Prng.fromSeed(9);
    let damaged = 0;
    for (let place = 0; place < PLACES || (damaged === 0 && place < PLACES_MAX); place++) {
      const at = Math.floor(used[random.below(used.length)] / 64) * 64;
      const lost = lostKeys(zeroed(path, at, 64));
      if (lost === 0) continue;
      damaged++;
      const { problems, unreachable } = checkSync(zeroed(path, at, 64));
      const isTold = problems.length > 0 || unreachable >= before.unreachable + lost;
      assert.ok(isTold, `zeros at ${at}: ${unreachable} unreachable, ${lost} lost`);
    }
    assert.ok(damaged > 0);
  });
}

for (const index of ['race', 'sephash', 'shard'] as const) {
  for (const bytes of [8, 64, 512]) {
    test(`${index}: where ${bytes} bytes are zeroed, and keys lost by it, check says so`, (t) => {
      assertDamageIsFound(closedPool(t, index), bytes, PLACES);
    });
  }
}

for (const index of ['race', 'sephash', 'shard', 'hstore'] as const) {
  test(`${index}: after a client was killed and swept, check says what zeros cost`, async (t) => {
    assertDamageIsFound(await sweptPool(t, index), 64, PLACES);
  });
}

for (const [history, poolWith] of [
  ['', closedPool],
  [', after a client was killed and swept', sweptPool],
] as const) {
  test(`shard: a root that is nothing but zeros${history}`, async (t) => {
    const path = await poolWith(t, 'shard');
    const file = readFileSync(path);
    // The root's line of segments begins with the address of the first one.
    const roots = usedWords(path).filter((at) => file.readBigUInt64LE(at) === BigInt(at + 64));
    assert.notEqual(roots.length, 0);
    const url = zeroed(path, roots[0] - 64, 512);
    assert.notEqual(checkSync(url).problems.length, 0);
    assert.throws(() => openSync(url, { create: false }), { code: 'SW_POOL_CORRUPT' });
  });
}

test('what a client that died had removed is counted, and is no problem', () => {
  const { fabric, parameters, source } = createInMemory({ size: 16 * 2 ** 20, maxClients: 8 });
  const survivor = new LocalPool(fabric, parameters, source);
  survivor.join('survivor');
  const kind = kindNamed('shard');
  const entry = survivor.run(createStore(survivor, 'here', kind, kind.parameters({}, 2 ** 24, 1)));
  // No thread has this number, so the system says that the client is gone.
  const dead = { ...currentThread(), pid: 2 ** 22 - 1, tid: 2 ** 22 - 1 };
  const client = new LocalPool(fabric, parameters, source, dead);
  client.run(client.membership.join('dead'));
  const { id: owner, incarnation } = client.membership;
  client.allocator.client = { owner, incarnation };
  client.run(client.membership.nameStore(entry.id, true));
  const index = client.run(openIndex(client, entry));
  client.run(client.reclamation.quiesce());
  client.run(index.write(requestFor({ index }, 'key', 'value'), ALWAYS));
  client.run(index.remove(requestFor({ index }, 'key')));
  survivor.recoverGone();
  const check = checkStores(survivor, 'memory:', (one) => openIndex(survivor, one));
  const { problems, unreachable } = survivor.run(check);
  assert.deepEqual({ problems, unreachable }, { problems: [], unreachable: 1 });
});
