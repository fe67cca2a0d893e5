import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import { Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { Batch, type Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import type { ChimeIndex } from '../chime.ts';
import { addressOfLink, FROZEN } from '../nodes/link.ts';
import type { CachedNode } from '../nodes/node-arena.ts';
import { linkAddress, rootLink, visit } from '../nodes/node-io.ts';
import { rebuildNode } from '../nodes/rebuild-node.ts';
import { keyOf } from '../nodes/siblings.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

/**
 * Three clients grow and shrink one tree, verb by verb in a random order. `verify` has few keys, so
 * its nodes hardly ever absorb several splits together while leaves below these are replaced; here
 * nodes of four to eight children do so all the time. What must hold in the end: the tree is in
 * order, and nothing of it was given back, or given back twice.
 */
const CLIENTS = 3;
const KEYS_EACH = 40;
const SHAPE = { span: 6, neighbourhood: 2 };

/** Writes or removes the keys of one client, one after the other, within one epoch each. */
class Worker {
  readonly client: Client;
  readonly present = new Set<string>();
  readonly #keys: string[];
  readonly #prng: Prng;
  #left = 3 * KEYS_EACH;
  #operation: Operation<unknown> | undefined;
  #batch = new Batch();
  #verb = 0;

  constructor(client: Client, number: number, prng: Prng) {
    this.client = client;
    this.#prng = prng;
    this.#keys = Array.from({ length: KEYS_EACH }, (_, i) => `key ${100 + CLIENTS * i + number}`);
    client.pool.exit();
  }

  get isDone(): boolean {
    return this.#left === 0 && this.#operation === undefined;
  }

  /** One verb, or the begin of an operation. */
  step(): void {
    this.#operation ??= this.#begin();
    if (this.#verb < this.#batch.length) {
      this.client.pool.fabric.execute(verbOf(this.#batch, this.#verb++));
      if (this.#verb < this.#batch.length) return;
    }
    const { done, value } = this.#operation.next();
    this.#batch = done ? this.#batch.clear() : (value as Batch);
    this.#verb = 0;
    if (!done) return;
    this.#operation = undefined;
    this.client.pool.exit();
  }

  #begin(): Operation<unknown> {
    const { pool, index } = this.client;
    if (this.#prng.below(2) === 0) pool.run(pool.reclamation.quiesce());
    pool.enter();
    // What it learns anew may be of a node that another client is replacing: with frozen links.
    if (this.#prng.below(4) === 0) index.tree.cache.forget();
    const key = this.#keys[this.#prng.below(KEYS_EACH)];
    const grows = this.#left-- > KEYS_EACH ? 8 : 3;
    if (this.#prng.below(10) < grows) {
      this.present.add(key);
      return index.write(requestFor(this.client, key, key), ALWAYS);
    }
    this.present.delete(key);
    return index.remove(requestFor(this.client, key));
  }
}

function verbOf(batch: Batch, row: number): Batch {
  const one = new Batch();
  one.kind[0] = batch.kind[row];
  one.address[0] = batch.address[row];
  one.bytes[0] = batch.bytes[row];
  one.offset[0] = batch.offset[row];
  one.scratch[0] = batch.scratch[row];
  one.length = 1;
  return one;
}

function interleaved(scope: Scope, seed: number, plant?: (index: ChimeIndex) => void): Worker[] {
  const prng = Prng.fromSeed(seed);
  const first = clientOf(scope, { ...SHAPE, fanout: 4 + (seed % 5) });
  const others = Array.from({ length: CLIENTS - 1 }, () => clientOf(scope, {}, first.handle));
  for (const { index } of [first, ...others]) plant?.(index);
  const workers = [first, ...others].map((client, i) => new Worker(client, i, prng));
  for (let open = workers; open.length > 0; open = open.filter(({ isDone }) => !isDone)) {
    const worker = open[prng.below(open.length)];
    // Now and then one does several operations while the others stand still in theirs.
    const most = prng.below(8) === 0 ? 200 : 8;
    for (let burst = 1 + prng.below(most); burst > 0 && !worker.isDone; burst--) worker.step();
  }
  return workers;
}

/** The blocks that the tree reaches, when nothing is wrong with it and it has so many records. */
function reached({ pool, index }: Client, records: number): number[] {
  const blocks: number[] = [];
  const problems: string[] = [];
  const sink = {
    problem: (text: string) => problems.push(text),
    reachable: (address: number) => blocks.push(address),
    progress: () => {},
  };
  assert.equal(pool.run(index.check(sink)), records);
  assert.deepEqual(problems, []);
  return blocks;
}

function assertWhole(workers: readonly Worker[], seed: number): void {
  const [{ client }] = workers;
  client.pool.enter();
  const records = workers.reduce((sum, { present }) => sum + present.size, 0);
  const blocks = new Set(reached(client, records));
  const retired = workers.flatMap((worker) => worker.client.pool.reclamation.waiting());
  assert.equal(new Set(retired).size, retired.length, `retired twice, seed ${seed}`);
  const reachable = retired.filter((address) => blocks.has(address));
  assert.deepEqual(reachable, [], `retired and reachable, seed ${seed}`);
  for (const { present } of workers) {
    for (const key of present) {
      const request = requestFor(client, key);
      assert.ok(client.pool.run(client.index.search(request)), `${key} is missing, seed ${seed}`);
      assert.equal(foundText(request), key);
    }
  }
  client.pool.exit();
}

test('nodes absorb several splits while others work below them', (t) => {
  let rebuilds = 0;
  for (let seed = 1; seed <= 12; seed++) {
    const workers = interleaved(t, seed);
    assertWhole(workers, seed);
    for (const worker of workers) rebuilds += worker.client.index.tree.rebuilds;
  }
  assert.ok(rebuilds > 300, `${rebuilds} nodes were rebuilt`);
});

/** Links are changed that a client remembers as they were frozen. */
function swapFrozen({ tree }: ChimeIndex): void {
  const { cache, stepMemories } = tree;
  const { take } = stepMemories;
  stepMemories.take = () => {
    const memory = take.call(stepMemories);
    const { batch } = memory;
    batch.cas = (address, words, at) => {
      const half = (at >> 2) + 1;
      const isFreezing = (words.i32[half + 2] & FROZEN) !== 0;
      if (!isFreezing && isFrozenIn(cache.top, address)) words.i32[half] |= FROZEN;
      return Batch.prototype.cas.call(batch, address, words, at);
    };
    return memory;
  };
}

function isFrozenIn(node: CachedNode | undefined, address: number): boolean {
  if (node === undefined) return false;
  for (let child = 0; child < node.children; child++) {
    const at = linkAddress(addressOfLink(node.low, node.high), child);
    if (at === address) return (node.linkHigh(child) & FROZEN) !== 0;
    if (isFrozenIn(node.node(child), address)) return true;
  }
  return false;
}

test('the canary is caught: a link that is remembered as it was frozen is changed', (t) => {
  let caught = false;
  // One seed in thirty catches it; seed 108 does.
  for (let seed = 101; seed <= 200 && !caught; seed++) {
    const workers = interleaved(t, seed, swapFrozen);
    try {
      assertWhole(workers, seed);
    } catch (error) {
      assert.match((error as Error).message, /retired|reached twice/);
      caught = true;
    }
  }
  assert.ok(caught);
});

test('a link that is remembered as it was frozen is not changed', (t) => {
  const first = clientOf(t, { ...SHAPE, fanout: 8 });
  const other = clientOf(t, {}, first.handle);
  const put = ({ pool, index }: Client, key: string) =>
    pool.run(index.write(requestFor(first, key, key), ALWAYS));
  let count = 0;
  for (; first.index.tree.splits < 40; count++) put(first, `key ${1000 + 7 * count}`);
  // The other client is about to replace the root, whose links it has frozen.
  const { tree } = other.index;
  const root = other.pool.run(visit(tree, tree.root, other.pool.run(rootLink(tree))));
  const target = { key: keyOf(requestFor(other, 'key 1000')), upper: undefined };
  const replacing = new Stepped(other.pool.fabric, rebuildNode(tree, root, target));
  replacing.step();
  first.index.tree.cache.forget();
  for (let i = 0; first.index.tree.splits < 41; i++, count++) put(first, `key ${1001 + 7 * i}`);
  replacing.finish();
  const blocks = new Set(reached(first, count));
  const retired = [first, other].flatMap(({ pool }) => pool.reclamation.waiting());
  assert.equal(new Set(retired).size, retired.length, 'retired twice');
  assert.ok(!retired.some((address) => blocks.has(address)), 'retired and reachable');
});
