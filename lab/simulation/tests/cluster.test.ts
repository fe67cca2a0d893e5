import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS, REFUSED } from '../../../src/indexes/contract.ts';
import type { RaceShape } from '../../../src/indexes/race/geometry.ts';
import { openRace } from '../../../src/indexes/race/race.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { checkStores } from '../../../src/store/administration/check.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import { CONNECTX5 } from '../../simulated/model.ts';
import { Prng } from '../../workloads/index.ts';
import { SimulatedCluster } from '../cluster.ts';
import { raceKind, type TimedIndex } from '../index-kind.ts';
import type { PoolClient } from '../pool-client.ts';

/** So small that it is split again and again. */
const SHAPE: RaceShape = { associativity: 2, groups: 4, initialDepth: 0, maxDepth: 10, seed: 1 };
const KEYS = 400;

interface Adversity {
  memoryNodes: number;
  readWindowNs: number;
  writeWindowNs: number;
}

/** Clients that write, remove and search the same keys while the table grows. */
function contend({ memoryNodes, ...windows }: Adversity, seed: number) {
  const cluster = new SimulatedCluster({
    model: { ...CONNECTX5, ...windows },
    seed,
    kind: raceKind(SHAPE),
    clients: 6,
    memoryNodes,
    computeNodes: 2,
    poolBytes: 2 ** 25,
  });
  const prng = Prng.fromSeed(seed);
  const { network } = cluster;
  // One of them reaches the memory of the first node by its CPU.
  const clients = Array.from({ length: 6 }, (_, i) =>
    cluster.addClient(i === 5 ? { memoryNode: 0 } : i % 2, 3),
  );
  const present = new Set<number>();
  for (const client of clients) {
    let left = 400;
    client.begin({ next: (request) => (left-- > 0 ? anything(client, request) : undefined) });
  }
  function anything(client: PoolClient, request: Request): Operation<unknown> {
    const record = prng.below(KEYS);
    const { index, records } = client;
    const key = cluster.keys.bytes(record);
    const draw = prng.below(10);
    if (draw < 5) {
      present.add(record);
      const value = cluster.values.buffer(record, prng.below(100));
      records.encode(request, key, value, prng.below(1000));
      return index.write(request, ALWAYS);
    }
    request.setKey(key, index.records.seed, 64);
    // The last tenth of the keys is never removed, so that something is known to be there.
    if (draw < 7 && record < 0.9 * KEYS) return index.remove(request);
    return found(index, request, client);
  }
  network.run();
  return { cluster, clients, present };
}

function* found(index: TimedIndex, request: Request, { records }: PoolClient): Operation<boolean> {
  const present = yield* index.search(request);
  if (present) records.check(request);
  return present;
}

for (const memoryNodes of [1, 3]) {
  test(`RACE stays whole under contention over ${memoryNodes} memory nodes`, () => {
    const adversity = { memoryNodes, readWindowNs: 3000, writeWindowNs: 1500 };
    const { cluster, clients, present } = contend(adversity, 11);
    const [{ pool, index, records }] = clients;
    assert.ok(clients.every(({ busy }) => !busy));
    assert.ok(index.table.directory.depth + clients[1].index.table.directory.depth > 4);
    const open = () => openRace(pool, SHAPE, 1, index.table.directory.parts.root);
    assert.deepEqual(pool.run(checkStores(pool, 'simulated', open)).problems, []);
    const request = index.newRequest();
    pool.run(pool.reclamation.quiesce());
    for (const record of present) {
      if (record < 0.9 * KEYS) continue;
      records.encode(request, cluster.keys.bytes(record), 'again', 0);
      assert.notEqual(pool.run(index.write(request, ALWAYS)), REFUSED);
      assert.equal(pool.run(index.search(request)), true);
    }
    assert.equal(cluster.network.answered, cluster.network.posted);
  });
}

test('one seed gives one run of the whole pool', () => {
  const trace = (seed: number) => {
    const { cluster, clients } = contend(
      { memoryNodes: 2, readWindowNs: 500, writeWindowNs: 100 },
      seed,
    );
    const traffic = clients.map(({ pool }) => pool.fabric.traffic.snapshot());
    return { end: cluster.network.now, traffic };
  };
  assert.deepEqual(trace(1), trace(1));
  assert.notDeepEqual(trace(1), trace(2));
});
