import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimedBlocks } from '../../../../pool/memory/tests/support/claimed-blocks.ts';
import { requestFor, Stepped, shardByHand } from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import type { Operation } from '../../../../verbs/index.ts';
import { ALWAYS } from '../../../contract.ts';
import { eachReachable } from '../../../sweep.ts';
import { resize } from '../../resizing/resize.ts';
import { type Client, get, put, within } from '../../tests/support/clients.ts';

const SHARD = { partitions: 1, buckets: 1, level1: 4, level2: 2, resizes: 6 };
const KEYS = Array.from({ length: 7 }, (_, i) => `key ${i}`);
/** Round trips of the migration, from one time at which the late mover goes on to the next. */
const STRIDE = 67;

/** Of a table that was resized a client has begun an operation and stands still in its move. */
function stalled(scope: Scope, resizes: number, stop: number) {
  const late = shardByHand(scope, { shard: SHARD, nodes: 3 });
  const [mover, other] = [1, 2].map(() =>
    shardByHand(scope, { shard: SHARD, handle: late.handle }),
  );
  const all = [late, mover, other];
  for (const { index } of all) {
    index.table.syncEvery = Number.POSITIVE_INFINITY;
    index.table.patience = { polls: 1, microseconds: 1 };
  }
  for (const key of KEYS) put(late, key, 'old');
  for (let i = 0; i < resizes; i++) {
    assert.ok(within(late, () => late.pool.run(resize(late.index.table))));
  }
  late.pool.enter();
  const request = requestFor(late, 'late', 'of the late one');
  const writing = new Stepped(late.pool.fabric, late.index.write(request, ALWAYS));
  while (!writing.done && writing.steps < stop) writing.step();
  const { node } = mover.index.table;
  const without = (nodes: readonly number[]) => nodes.filter((one) => one !== node);
  within(mover, () => mover.pool.run(mover.index.placement.changeNodes(without)));
  return { all, late, mover, other, writing };
}

/** What is put elsewhere is on the node of its table, not on just any: that one may be removed. */
function assertPlaced({ pool, index: { table } }: Client): void {
  for (const { address } of table.segments.relocations()) {
    assert.equal(pool.layout.nodeOf(address), table.node);
  }
}

/** All parts of a migration, one behind the other. */
function* migrate(client: Client): Operation<void> {
  const [migration] = client.index.placement.rebalancing();
  while (!migration.done) yield* migration.next();
  assert.ok(migration.moved);
}

/** Every block of the store is reached once, or somebody's to hand out. */
function assertWhole(all: readonly Client[]): void {
  for (const { pool } of all) pool.run(pool.reclamation.goOffline());
  for (const { pool } of all) for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
  const [client] = all;
  const problems: string[] = [];
  const reached: number[] = [];
  const sink = {
    problem: (text: string) => void problems.push(text),
    reachable: (address: number) => void reached.push(address),
    progress: () => {},
  };
  within(client, () => client.pool.run(client.index.check(sink)));
  assert.deepEqual(problems, []);
  assert.equal(new Set(reached).size, reached.length, 'a block is reached twice');
  const walked = new Set<number>();
  within(client, () =>
    client.pool.run(eachReachable(client.index, (address) => walked.add(address))),
  );
  for (const address of reached) assert.ok(walked.has(address), `${address} is not swept`);
  for (const { pool, index } of all) {
    const { allocator, reclamation } = pool;
    assert.equal(reclamation.retired, 0);
    pool.run(reclamation.goOffline());
    for (const address of claimedBlocks(pool, index.records.catalog)) {
      assert.ok(walked.has(address), `${address} is lost`);
    }
    for (const { catalog, cache } of allocator.classes()) {
      if (catalog !== index.records.catalog) continue;
      for (const address of cache) assert.ok(!walked.has(address), `${address} is free and in use`);
    }
  }
}

test('a late mover of a table that is migrated meanwhile, with what was put elsewhere for it', (t) => {
  let relocated = 0;
  for (const resizes of [1, 3]) {
    for (let stop = 0, done = false; !done; stop++) {
      for (let after = 0, migrated = false; !migrated; after += STRIDE) {
        const { all, late, mover, other, writing } = stalled(t, resizes, stop);
        done = writing.done;
        const wasDone = done;
        mover.pool.enter();
        const migrating = new Stepped(mover.pool.fabric, migrate(mover));
        while (!migrating.done && migrating.steps < after) {
          migrating.step();
          if (migrating.steps === after >> 1) for (const key of KEYS) put(other, key, 'new');
        }
        if (after === 0) for (const key of KEYS) put(other, key, 'new');
        assertPlaced(other);
        migrated = migrating.done;
        for (const key of KEYS) assert.equal(get(other, key), 'new', `${resizes} ${stop} ${after}`);
        writing.finish();
        late.pool.exit();
        for (const key of KEYS) assert.equal(get(late, key), 'new', `${resizes} ${stop} ${after}`);
        migrating.finish();
        mover.pool.exit();
        for (const client of all) {
          for (const key of KEYS) assert.equal(get(client, key), 'new');
          assert.equal(get(client, 'late'), 'of the late one');
          relocated += client.index.table.relocated;
        }
        assertWhole(all);
        for (const { pool } of all) pool.close();
        if (wasDone) break;
      }
    }
  }
  assert.ok(relocated > 10, `${relocated} relocated`);
});
