import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_FREE, CHUNK_SPAN, unpackChunk } from '../../../../pool/memory/chunk-word.ts';
import { Prng } from '../../../../random/prng.ts';
import { requestFor, Stepped, shardByHand } from '../../../../store/tests/support/by-hand.ts';
import { codeOf } from '../../../../store/tests/support/codes.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { UNIT_BYTES } from '../../../../verbs/index.ts';
import { resize } from '../../resizing/resize.ts';
import { type Client, get, put, remove, within } from '../../tests/support/clients.ts';
import { capacityOf } from '../placement.ts';

const NODES = 3;
const TINY = { partitions: 6, buckets: 1, level1: 4, level2: 2, threshold: 80, resizes: 8 };

function clients(
  scope: Scope,
  count: number,
  shard: Readonly<Record<string, number>>,
  sizes: object = {},
): Client[] {
  const first = shardByHand(scope, { shard, nodes: NODES, ...sizes });
  const all = [first];
  while (all.length < count) all.push(shardByHand(scope, { shard, handle: first.handle }));
  return all;
}

const shares = (client: Client) =>
  within(client, () => client.pool.run(client.index.placement.shares()));

function leaveNode(client: Client, node: number): void {
  const without = (nodes: readonly number[]) => nodes.filter((one) => one !== node);
  within(client, () => client.pool.run(client.index.placement.changeNodes(without)));
}

function enterNode(client: Client, node: number): void {
  const within3 = (nodes: readonly number[]) => [...nodes, node];
  within(client, () => client.pool.run(client.index.placement.changeNodes(within3)));
}

/** Runs all migrations by turns, and something between any two parts of them. */
function rebalance(client: Client, between: () => void = () => {}): number {
  const migrations = client.index.placement.rebalancing();
  while (migrations.some(({ done }) => !done)) {
    for (const migration of migrations) {
      if (!migration.done) within(client, () => client.pool.run(migration.next()));
      between();
    }
  }
  return migrations.filter(({ moved }) => moved).length;
}

function assertWhole(client: Client): void {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  within(client, () =>
    client.pool.run(client.index.check({ problem, reachable: () => {}, progress: () => {} })),
  );
  assert.deepEqual(problems, []);
}

/** Every partition is whole on the node where the placement has it, and no node has too many. */
function assertPlaced(client: Client, nodes: readonly number[]): void {
  const { partitions } = client.index.partitions.geometry.shape;
  for (const { node, placed, parts, bytes } of shares(client)) {
    assert.equal(placed, nodes.includes(node));
    assert.ok(parts <= (placed ? capacityOf(nodes.length, partitions) : 0));
    assert.equal(parts === 0, bytes === 0);
  }
  for (const { node, segments } of client.index.partitions.tables) {
    for (const address of segments.addresses) {
      assert.equal(client.pool.layout.nodeOf(address), node);
    }
  }
}

/** Lets everybody announce epochs until what was retired is free. */
function settle(all: readonly Client[]): void {
  for (const { pool } of all) pool.rest();
  for (const { pool } of all) for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
  for (const { pool } of all) assert.equal(pool.reclamation.retired, 0);
}

test('tables are spread over the nodes from the first segment on', (t) => {
  const [client] = clients(t, 1, { ...TINY, partitions: 64 });
  assertPlaced(client, [0, 1, 2]);
  const loads = shares(client).map(({ parts }) => parts);
  assert.equal(
    loads.reduce((sum, one) => sum + one, 0),
    64,
  );
  assert.ok(Math.min(...loads) >= 10, `${loads}`);
});

test('a node is taken from the placement and given back, and nobody misses anything', (t) => {
  const all = clients(t, 3, TINY);
  const [mover, other, late] = all;
  const model = new Map<string, string>();
  const prng = Prng.fromSeed(7);
  const traffic = () => {
    for (let i = 0; i < 6; i++) {
      const key = `key ${prng.below(150)}`;
      const client = all[prng.below(2)];
      const draw = prng.below(10);
      if (draw < 5) {
        const value = `${prng.next32()}`;
        put(client, key, value);
        model.set(key, value);
      } else if (draw < 7) assert.equal(remove(client, key), model.delete(key));
      else assert.equal(get(client, key), model.get(key));
    }
  };
  for (let i = 0; i < 60; i++) traffic();
  let moved = 0;
  const placements = [[0, 1], [0, 1, 2], [1, 2], [1], [0, 1], [0, 1, 2]];
  let nodes = [0, 1, 2];
  for (const next of placements) {
    for (const node of nodes) if (!next.includes(node)) leaveNode(mover, node);
    for (const node of next) if (!nodes.includes(node)) enterNode(mover, node);
    nodes = next;
    moved += rebalance(mover, traffic);
    for (const client of [mover, other]) {
      for (let i = 0; i < 150; i += 3) assert.equal(get(client, `key ${i}`), model.get(`key ${i}`));
    }
    assertPlaced(mover, next);
    assertWhole(other);
  }
  assert.ok(moved > 10, `${moved} moves`);
  // One that has not looked for a long time.
  for (let i = 0; i < 150; i++) assert.equal(get(late, `key ${i}`), model.get(`key ${i}`));
  assert.ok(mover.index.counters.resizes + other.index.counters.resizes > 4);
  settle(all);
  assertWhole(late);
});

test('a mover that dies at any verb leaves a table that serves all, and another goes on', (t) => {
  const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`);
  let died = 0;
  for (let stop = 0; ; stop += 7) {
    const all = clients(t, 2, { ...TINY, partitions: 1 });
    const [dying, other] = all;
    for (const key of keys) put(dying, key, `${key} old`);
    for (const key of keys.slice(15)) remove(dying, key);
    const [at] = shares(dying)
      .filter(({ parts }) => parts > 0)
      .map(({ node }) => node);
    leaveNode(dying, at);
    dying.pool.enter();
    const [migration] = dying.index.placement.rebalancing();
    let steps = 0;
    while (!migration.done && steps <= stop) {
      const part = new Stepped(dying.pool.fabric, migration.next());
      while (!part.done && steps++ < stop) part.step();
      // The last doorbell is not rung to its end.
      if (!part.done) part.dieAfter(stop % Math.max(1, part.verbs));
    }
    const isDone = migration.done;
    const { id } = dying.pool.membership;
    other.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
    other.pool.recoverGone();
    for (const key of keys.slice(0, 15)) assert.equal(get(other, key), `${key} old`);
    for (const key of keys.slice(15)) assert.equal(get(other, key), undefined);
    for (const key of keys.slice(5)) put(other, key, `${key} new`);
    assertWhole(other);
    rebalance(other);
    const nodes = [0, 1, 2].filter((node) => node !== at);
    assertPlaced(other, nodes);
    for (const key of keys.slice(0, 5)) assert.equal(get(other, key), `${key} old`);
    for (const key of keys.slice(5)) assert.equal(get(other, key), `${key} new`);
    assertWhole(other);
    settle([other]);
    if (isDone) break;
    died++;
  }
  assert.ok(died > 20, `${died} deaths`);
});

test('what a table takes on its old node comes free, and is used again', (t) => {
  // Segments of several chunks.
  const sizes = { size: 3 * 6 * 2 ** 20, regionSize: 6 * 2 ** 20 };
  const all = clients(t, 2, { partitions: 2, buckets: 512 }, sizes);
  const [mover, other] = all;
  const spans = () =>
    mover.pool
      .run(mover.pool.chunks.words())
      .filter(([, word]) => unpackChunk(word).state === CHUNK_SPAN).length;
  const before = spans();
  put(other, 'key', 'value');
  // More often than fresh chunks alone would allow.
  const { chunksMax } = mover.pool.layout;
  let moved = 0;
  for (let round = 0; moved * 2 < chunksMax; round++) {
    const nodes = [0, 1, 2].filter((node) => node !== round % NODES);
    within(mover, () => mover.pool.run(mover.index.placement.changeNodes(() => nodes)));
    moved += rebalance(mover);
    assert.equal(get(other, 'key'), 'value');
    settle(all);
    assert.equal(spans(), before, `after round ${round}`);
    assertPlaced(mover, nodes);
  }
  const words = mover.pool.run(mover.pool.chunks.words());
  assert.ok(words.some(([, word]) => unpackChunk(word).state === CHUNK_FREE));
  assertWhole(other);
});

test('a full node refuses a table with a reason, and the table stays where it is', (t) => {
  const [client] = clients(t, 1, { partitions: 2, buckets: 1024 });
  put(client, 'key', 'value');
  const [{ node }] = client.index.partitions.tables;
  const full = (node + 1) % NODES;
  const { allocator, layout } = client.pool;
  const fill = (one: number) => {
    const take = () => void client.pool.run(allocator.spans.allocate(1, 4096, undefined, one));
    while (codeOf(take) !== 'SW_POOL_FULL');
  };
  fill(full);
  within(client, () => client.pool.run(client.index.placement.changeNodes(() => [full])));
  assert.throws(() => rebalance(client), {
    code: 'SW_POOL_FULL',
    message: new RegExp(`memory node ${full + 1} is full`),
  });
  assert.equal(get(client, 'key'), 'value');
  assert.equal(client.index.table.node, node);
  // A resize goes on elsewhere.
  const { table } = client.index;
  within(client, () => client.pool.run(client.index.placement.changeNodes(() => [node])));
  fill(node);
  assert.ok(within(client, () => client.pool.run(resize(table))));
  assert.equal(table.displaced, 1);
  assert.notEqual(layout.nodeOf(table.segments.addresses[1]), node);
  assert.equal(get(client, 'key'), 'value');
  assertWhole(client);
});

test('a visitor that dies between any two verbs while it fetches a bucket leaves it to the mover', (t) => {
  const keys = Array.from({ length: 3 }, (_, i) => `key ${i}`);
  let died = 0;
  for (let stop = 0, done = false; !done; stop++) {
    for (let verbs = 1, last = 1; verbs <= last; verbs++) {
      const [mover, visitor, late] = clients(t, 3, { ...TINY, partitions: 1 });
      for (const key of keys) put(mover, key, 'value');
      leaveNode(mover, mover.index.table.node);
      const [migration] = mover.index.placement.rebalancing();
      // It has left, and nothing has been fetched.
      within(mover, () => mover.pool.run(migration.next()));
      visitor.pool.enter();
      visitor.pool.run(visitor.index.table.load());
      const dying = new Stepped(
        visitor.pool.fabric,
        visitor.index.search(requestFor(visitor, keys[0])),
      );
      while (!dying.done && dying.steps < stop) dying.step();
      done = dying.done;
      if (done) break;
      last = dying.verbs;
      dying.dieAfter(verbs);
      died++;
      const { id } = visitor.pool.membership;
      mover.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
      mover.pool.recoverGone();
      rebalance(mover);
      for (const client of [mover, late]) {
        for (const key of keys) assert.equal(get(client, key), 'value', `${stop} ${verbs}`);
      }
      assertWhole(late);
    }
  }
  assert.ok(died > 10, `${died} deaths`);
});

test('who learns of two migrations at once never goes back to what the first one has left', (t) => {
  const all = clients(t, 2, { ...TINY, partitions: 1 });
  const [mover, other] = all;
  put(mover, 'key', 'value');
  const next = () => within(mover, () => mover.pool.run(migration.next()));
  let [migration] = mover.index.placement.rebalancing();
  leaveNode(mover, mover.index.table.node);
  next();
  // In one burst: it sees the first migration begin, and by a report that the second has begun.
  other.pool.enter();
  other.pool.run(other.index.table.load());
  const { table } = other.index;
  const left = table.segments.former?.addresses[0] as number;
  assert.ok(left > 0);
  while (!migration.done) next();
  enterNode(mover, mover.pool.layout.nodeOf(left));
  [migration] = mover.index.placement.rebalancing();
  leaveNode(mover, mover.index.table.node);
  next();
  other.pool.run(table.report(0));
  other.pool.exit();
  // The second one comes to where others look its table up anew, and stands still.
  mover.pool.enter();
  for (let counted = false; !counted; ) {
    const part = new Stepped(mover.pool.fabric, migration.next());
    while (!part.done && !counted) {
      counted = part.kinds === 'FAA';
      part.step();
    }
  }
  other.pool.run(other.pool.reclamation.goOffline());
  // What the first one has left may be used for something else by now.
  const touched: number[] = [];
  const shape = other.index.shape();
  within(other, () => {
    for (let step = shape.next(); !step.done; step = shape.next()) {
      touched.push(...step.value.address.subarray(0, step.value.length));
      other.pool.fabric.execute(step.value);
    }
  });
  const end = left + UNIT_BYTES * table.geometry.segmentUnits(0);
  assert.deepEqual(
    touched.filter((address) => address >= left && address < end),
    [],
  );
  mover.pool.exit();
});

test('a root is not taken for an earlier one of the table at the same address', (t) => {
  const all = clients(t, 2, { ...TINY, partitions: 1 });
  const [mover, other] = all;
  const move = (node: number) => {
    within(mover, () => mover.pool.run(mover.index.placement.changeNodes(() => [node])));
    assert.equal(rebalance(mover), 1);
    settle(all);
  };
  const here = mover.index.table.node;
  const there = (here + 1) % NODES;
  put(mover, 'key', 'value');
  let reused = 0;
  for (let round = 0; round < 20; round++) {
    move(there);
    assert.equal(get(other, 'key'), 'value');
    const known = other.index.table.segments;
    move(here);
    move(there);
    reused += Number(mover.index.table.segments.root === known.root);
    assert.equal(get(other, 'key'), 'value');
    assert.notEqual(other.index.table.segments, known);
    move(here);
  }
  assert.ok(reused > 0);
});

test('who moves all buckets goes on when another operation of its client reads the root anew', (t) => {
  const [client] = clients(t, 1, { ...TINY, partitions: 1 });
  const { pool, index } = client;
  const { table } = index;
  put(client, 'key', 'value');
  const { root } = table.segments;
  leaveNode(client, table.node);
  const [migration] = index.placement.rebalancing();
  within(client, () => pool.run(migration.next()));
  within(client, () => pool.run(table.load()));
  assert.notEqual(table.segments.root, root);
  table.techniques.lazy = false;
  pool.enter();
  const resizing = new Stepped(pool.fabric, resize(table));
  const { segments } = table;
  pool.run(table.reload(root));
  assert.notEqual(table.segments, segments);
  assert.ok(resizing.finish());
  pool.exit();
  assert.equal(segments.version, 1);
  assert.equal(get(client, 'key'), 'value');
  assertWhole(client);
});
