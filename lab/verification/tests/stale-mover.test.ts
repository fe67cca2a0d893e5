import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS, INSERTED } from '../../../src/indexes/contract.ts';
import { RaceGeometry } from '../../../src/indexes/race/geometry.ts';
import { moveBuckets } from '../../../src/indexes/race/migrate.ts';
import { buildRace, openRace, type RaceIndex } from '../../../src/indexes/race/race.ts';
import { allocateSubtable, writeSubtable } from '../../../src/indexes/race/split.ts';
import { CHUNK_BYTES } from '../../../src/pool/layout.ts';
import { LocalPool } from '../../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../../src/pool/superblock.ts';
import { type Batch, CAS, type Operation, READ } from '../../../src/verbs/index.ts';
import { AdversaryFabric, AdversaryMemory } from '../schedules/adversary.ts';

const PARAMETERS = {
  regionBytes: 64 * CHUNK_BYTES,
  regionsMax: 1,
  clientsMax: 8,
  createdAt: 0,
  poolId: 0,
};
const BUCKET = 0;

/** Clients of one small table that are moved by hand. */
class Stage {
  readonly memory = new AdversaryMemory(1, PARAMETERS.regionBytes);
  readonly shape;
  readonly geometry: RaceGeometry;
  readonly pools: LocalPool[];
  readonly indexes: RaceIndex[];
  readonly subtable: number;

  constructor(associativity: number) {
    this.memory.put(0, formatSuperblock(PARAMETERS));
    this.shape = { associativity, groups: 3, initialDepth: 0, maxDepth: 8, seed: 7 };
    this.geometry = new RaceGeometry(this.shape);
    this.pools = Array.from({ length: 5 }, (_, i) => this.#join(i));
    for (const pool of this.pools) pool.run(pool.reclamation.quiesce());
    const root = this.pools[0].run(buildRace(this.pools[0], this.shape, 1));
    this.indexes = this.pools.map((pool) => pool.run(openRace(pool, this.shape, 1, root)));
    this.subtable = this.indexes[0].table.directory.lookup(0);
  }

  #join(i: number): LocalPool {
    const pool = new LocalPool(new AdversaryFabric(this.memory, i), PARAMETERS, this.memory.source);
    pool.membership.liveness = () => 'alive';
    pool.join(`c${i}`);
    return pool;
  }

  get bucket(): number {
    return this.geometry.bucketAddress(this.subtable, BUCKET);
  }

  run<T>(client: number, operation: Operation<T>): T {
    return this.pools[client].run(operation);
  }

  /** Runs an operation up to the batch that `stop` accepts, which is not executed yet. */
  until(client: number, operation: Operation<unknown>, stop: (batch: Batch) => boolean): Batch {
    for (;;) {
      const step = operation.next();
      if (step.done) throw new Error('the operation ended before the batch');
      if (stop(step.value)) return step.value;
      this.pools[client].fabric.execute(step.value);
    }
  }

  /** Publishes the child of (suffix, depth) without moving a bucket. */
  publish(client: number, suffix: number, depth: number): number {
    const { table } = this.indexes[client];
    const identity = { parent: this.subtable, suffix: suffix + 2 ** depth, depth: depth + 1 };
    this.run(client, table.directory.load());
    this.run(client, table.directory.deepen(depth));
    const child = this.run(client, allocateSubtable(table.allocator, 1, this.geometry));
    this.run(client, writeSubtable(this.geometry, child, { ...identity, ready: false }));
    assert.ok(this.run(client, table.directory.link(suffix, depth, child)));
    return child;
  }

  move(client: number, child: number, bucket = BUCKET): Operation<void> {
    return moveBuckets(this.indexes[client].table, this.subtable, child, bucket, 1);
  }

  moveAll(client: number, child: number): void {
    for (let b = 0; b < this.geometry.buckets; b++) this.run(client, this.move(client, child, b));
  }

  insert(client: number, key: string): Operation<number> {
    const index = this.indexes[client];
    const request = index.newRequest();
    index.table.records.encode(request, key, 'value', 1000);
    return index.write(request, ALWAYS);
  }

  has(client: number, key: string): boolean {
    const index = this.indexes[client];
    const request = index.newRequest();
    request.setKey(key, this.shape.seed);
    return this.run(client, index.search(request));
  }

  /** A key of which bucket 0 is the first choice and whose hash ends with `suffix` (mod 4). */
  keyFor(suffix: number): string {
    const request = this.indexes[0].newRequest();
    for (let i = 0; ; i++) {
      request.setKey(`k${i}`, this.shape.seed);
      const { h1, h2 } = request.hash;
      if ((h1 & 3) === suffix && this.geometry.firstChoice(h2) === BUCKET) return `k${i}`;
    }
  }
}

const isReadOf = (address: number) => (batch: Batch) =>
  batch.length === 1 && batch.kind[0] === READ && batch.address[0] === address;

for (const associativity of [1, 2]) {
  test(`a mover that comes late leaves slots alone that are frozen for the next split, associativity ${associativity}`, () => {
    const stage = new Stage(associativity);
    const { bucket, memory } = stage;
    // Client 0 begins to help with the first split and has read only the bucket's header: depth 0.
    const first = stage.publish(0, 0, 0);
    const late = stage.move(0, first);
    const read = stage.until(0, late, isReadOf(bucket));
    const header = memory.word(bucket);
    stage.moveAll(1, first);
    // Client 1 has claimed the slot for a key and not committed yet.
    stage.run(1, stage.indexes[1].table.directory.load());
    const isCommit = ({ length, kind, address }: Batch) =>
      length === 1 && kind[0] === CAS && address[0] === bucket + 8;
    stage.until(1, stage.insert(1, stage.keyFor(0)), isCommit);
    stage.run(3, stage.indexes[3].table.directory.load());
    // Second split: client 2 has frozen the bucket and not transferred it yet.
    const second = stage.publish(2, 0, 1);
    const helper = stage.move(2, second);
    const transfer = stage.until(
      2,
      helper,
      ({ kind, address }) => kind[0] === CAS && address[0] > second && address[0] < second + 4096,
    );
    // Only now client 0 reads the slots, and goes on.
    stage.pools[0].fabric.execute(read);
    read.scratch[0].i64[read.offset[0] >> 3] = header;
    stage.run(0, late);
    // Client 3, whose directory is stale, inserts a key that belongs to the second child.
    const key = stage.keyFor(2);
    assert.equal(stage.run(3, stage.insert(3, key)), INSERTED);
    stage.pools[2].fabric.execute(transfer);
    stage.run(2, helper);
    stage.moveAll(2, second);
    stage.run(4, stage.indexes[4].table.directory.load());
    assert.ok(stage.has(4, key), 'an acknowledged insertion was lost');
  });
}
