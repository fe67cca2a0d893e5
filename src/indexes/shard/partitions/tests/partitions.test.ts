import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../../pool/control.ts';
import { shardByHand, traced } from '../../../../store/tests/support/by-hand.ts';
import { NULL_ADDRESS, type Operation } from '../../../../verbs/index.ts';
import { openShard } from '../../shard.ts';

const SHARD = { partitions: 64, buckets: 1, level1: 4, level2: 2 };
/** In a root: the addresses of the segments, and what says that the table has left for a root. */
const SEGMENTS = 128;
const LEFT = 1;

test('who opens a store of 64 partitions reads their roots some at a time', (t) => {
  const { pool, index } = shardByHand(t, { shard: SHARD, nodes: 3 });
  const { root } = index.partitions.directory;
  const { trips, value } = traced(
    pool.fabric,
    openShard(pool, index.table.geometry.shape, index.records.catalog, root),
  );
  // Migrations, directory, two times half of the roots, migrations.
  assert.deepEqual(
    trips.map((verbs) => verbs.split(' ').length),
    [1, 1, 32, 32, 1],
  );
  value.partitions.tables.forEach(({ segments, node }, partition) => {
    const known = index.partitions.tables[partition];
    assert.deepEqual(segments.addresses, known.segments.addresses);
    assert.equal(node, known.node);
  });
});

test('who never is the faster one gives up, and says why', (t) => {
  const { pool, index } = shardByHand(t, { shard: SHARD, nodes: 3 });
  const { root } = index.partitions.directory;
  let changes = 0;
  const late = index.placement.changeNodes((nodes) => {
    pool.run(control.store(root, changes++ % 2 === 0 ? 3n : 7n));
    return nodes.slice(1);
  });
  assert.throws(() => pool.run(late), {
    code: 'SW_CONTENTION',
    message: /other clients changed the memory nodes of this store 1000 times/,
  });
  assert.equal(changes, 1000);
});

test('who opens a store while tables are migrated all the time gives up, and says why', (t) => {
  const { pool, index } = shardByHand(t, { shard: { ...SHARD, partitions: 2 }, nodes: 3 });
  const opening = openShard(
    pool,
    index.table.geometry.shape,
    index.records.catalog,
    index.partitions.directory.root,
  );
  const migrating = function* (): Operation<unknown> {
    for (let step = opening.next(); ; step = opening.next()) {
      if (step.done) return step.value;
      yield step.value;
      yield* pool.reclamation.countMigration();
    }
  };
  assert.throws(() => pool.run(migrating()), {
    code: 'SW_CONTENTION',
    message: /other clients migrated tables during each of 1000 attempts/,
  });
});

test('roots that lead in a circle are no endless migration', (t) => {
  const { pool, index } = shardByHand(t, { shard: { ...SHARD, partitions: 1 }, nodes: 2 });
  const { segments } = index.table;
  pool.run(control.store(segments.root + SEGMENTS + 8, BigInt(segments.root + LEFT)));
  const refused = { code: 'SW_POOL_CORRUPT', message: /lead on after 1000 migrations/ };
  assert.throws(() => pool.run(index.table.load()), refused);
  assert.throws(() => pool.run(index.partitions.directory.places()), refused);
});

test('a table that others change whenever it is to leave stays, and the caller is told', (t) => {
  const { pool, index } = shardByHand(t, { shard: { ...SHARD, partitions: 1 }, nodes: 2 });
  const { segments, node } = index.table;
  segments.leaveFor = function* () {
    yield* control.load(segments.root);
    return false;
  };
  pool.run(index.placement.changeNodes(() => [1 - node]));
  const [migration] = index.placement.rebalancing();
  const all = function* () {
    while (!migration.done) yield* migration.next();
  };
  assert.throws(() => pool.run(all()), {
    code: 'SW_CONTENTION',
    message: /other clients changed partition 0 10000 times/,
  });
  assert.equal(segments.successor, NULL_ADDRESS);
});
