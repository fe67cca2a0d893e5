import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { type ByHand, requestFor, sepHashByHand } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { CAS, READ, WRITE } from '../../../verbs/batch.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { without } from '../../substrates/parameters.ts';
import { SEPHASH_TECHNIQUES } from '../geometry.ts';
import { isClosed, metaHigh, metaLow } from '../segments/header.ts';
import { MAIN_HEADER_BYTES } from '../segments/main-segment.ts';
import type { SepHashIndex } from '../sephash.ts';
import { eachSegment, Snapshot } from '../snapshot.ts';
import { succeeds } from './support/full-pool.ts';

type Client = ByHand<SepHashIndex>;

const OPTIONS = { size: 2.75 * 2 ** 20, maxClients: 8 };
const SHAPE = { segmentBytes: 128, ratio: 8, maxDepth: 12 };
/** Blocks for records that a client has put aside before the pool is full. */
const HOARD = 3000;
/** How many keys a client puts into a segment as soon as that has been merged. */
const RIVALS = 16;

interface FullPool {
  hoarder: Client;
  other: Client;
  keys: string[];
}

/** A pool that one client has filled, a client with blocks for records, and one without any. */
function fullPool(scope: Scope, more: object = {}): FullPool {
  const sephash = { ...SHAPE, ...more };
  const filler = sepHashByHand(scope, { ...OPTIONS, sephash });
  const { handle } = filler;
  const hoarder = sepHashByHand(scope, { sephash, handle });
  const other = sepHashByHand(scope, { sephash, handle });
  const { allocator } = hoarder.pool;
  const { catalog } = hoarder.index.records;
  const blocks: Address[] = [];
  for (let i = 0; i < HOARD; i++) blocks.push(hoarder.pool.run(allocator.allocate(catalog, 1)));
  allocator.sizeClass(catalog, 1).cache.push(...blocks);
  const keys: string[] = [];
  while (isStored(filler, `k${keys.length}`)) keys.push(`k${keys.length}`);
  // Idle: it holds back nobody.
  filler.pool.betweenOperations(() => filler.pool.reclamation.goOffline());
  return { hoarder, other, keys };
}

/** Puts a key; false when the pool is full. */
function isStored(client: Client, key: string): boolean {
  const { pool, index } = client;
  try {
    pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
    return true;
  } catch (error) {
    assert.ok(error instanceof StepwellError && error.code === 'SW_POOL_FULL', String(error));
    return false;
  }
}

function* atOnce(): Operation<boolean> {
  yield* [];
  return true;
}

/** Puts new keys of the segment with this header; returns those that were let in. */
function insertInto(client: Client, header: Address, round: number): string[] {
  const { index } = client;
  const isThere = (key: string) =>
    index.table.directory.lookup(requestFor(client, key).hash.h1) === header;
  const candidates = Array.from({ length: 40 * RIVALS }, (_, i) => `more ${round} ${i}`);
  const rivals = candidates.filter(isThere).slice(0, RIVALS);
  return rivals.filter((key) => isStored(client, key));
}

/** Compacts while another client puts keys behind each merge; returns how many there were. */
function compactAmidInsertions({ hoarder, other, keys }: FullPool): number {
  const { fabric } = other.pool;
  const compacting = other.index.compact(atOnce, true);
  let round = 0;
  for (let step = compacting.next(); !step.done; step = compacting.next()) {
    fabric.execute(step.value);
    // A merge, or a MainSegment that was copied home: the CAS on a header comes last.
    const { kind, address, length } = step.value;
    const last = length - 1;
    if (kind[0] !== WRITE || kind[last] !== CAS) continue;
    keys.push(...insertInto(hoarder, address[last], round++));
  }
  return round;
}

for (const left of [[], ['signs']] as const) {
  const shape = left.length === 0 ? '' : ', without signs';
  test(`insertions right behind the merges of a compaction leave deletions possible${shape}`, (t) => {
    const full = fullPool(t, without(SEPHASH_TECHNIQUES, ...left));
    const { hoarder, other, keys } = full;
    assert.ok(compactAmidInsertions(full) > 0);
    hoarder.pool.betweenOperations(() => hoarder.pool.reclamation.goOffline());
    for (const key of keys) {
      const remove = () => other.index.remove(requestFor(other, key));
      assert.ok(succeeds(other, remove), `${key} of ${keys.length}`);
    }
    assert.equal(other.pool.run(other.index.shape()).records, 0);
  });
}

test('an insertion that a closed segment refuses leaves its entries to deletions', (t) => {
  const full = fullPool(t);
  const { hoarder, other, keys } = full;
  compactAmidInsertions(full);
  const closed = new Set<Address>();
  other.pool.run(
    eachSegment(other.index.table, function* ({ header, metaHigh: high }) {
      yield* [];
      if (isClosed(high)) closed.add(header);
    }),
  );
  assert.ok(closed.size > 0);
  const headerOf = (key: string) =>
    other.index.table.directory.lookup(requestFor(other, key).hash.h1);
  const news = Array.from({ length: 10_000 }, (_, i) => `new ${i}`);
  for (const header of closed) {
    const key = news.find((each) => headerOf(each) === header);
    assert.equal(isStored(hoarder, key as string), false);
  }
  const { allocator } = other.pool;
  allocator.allocate = noMemory;
  allocator.refill = noMemory;
  for (const key of keys) {
    if (!closed.delete(headerOf(key))) continue;
    assert.ok(other.pool.run(other.index.remove(requestFor(other, key))), key);
  }
});

// biome-ignore lint/correctness/useYield: it raises before there is anything to do
function* noMemory(): Operation<never> {
  throw new StepwellError('SW_POOL_FULL', 'this client is to have no memory');
}

/** How many CurSegments have no empty entry. */
function countFull({ pool, index }: Client): number {
  let count = 0;
  pool.run(
    eachSegment(index.table, function* ({ isFull }) {
      yield* [];
      if (isFull) count++;
    }),
  );
  return count;
}

/** Has every segment merged that holds records of deleted keys; returns how many were. */
function release({ pool, index }: Client): number {
  let segments = 0;
  pool.run(
    eachSegment(index.table, function* () {
      yield* [];
      segments++;
    }),
  );
  let released = 0;
  for (let i = 0; i < segments; i++) {
    pool.enter();
    if (pool.run(index.compact()) > 0) released++;
    pool.exit();
  }
  return released;
}

test('a release frees the records of deleted keys, and only those', (t) => {
  const client = sepHashByHand(t, { ...OPTIONS, sephash: SHAPE });
  const { pool, index } = client;
  const keys = Array.from({ length: 2000 }, (_, i) => `k${i}`);
  for (const key of keys) assert.ok(isStored(client, key));
  for (const key of keys.slice(1000)) pool.run(index.remove(requestFor(client, key)));
  const { freed } = pool.allocator;
  assert.ok(release(client) > 0);
  while (release(client) > 0);
  pool.betweenOperations(() => pool.ripening());
  assert.ok(pool.allocator.freed - freed >= 1000, `${pool.allocator.freed - freed} freed`);
  for (const key of keys.slice(0, 1000)) {
    assert.ok(pool.run(index.search(requestFor(client, key))), key);
  }
  assert.equal(pool.run(index.shape()).records, 1000);
});

test('a release that finds no block fills no CurSegment, so deletions stay possible', (t) => {
  const { other, keys } = fullPool(t);
  const { allocator } = other.pool;
  allocator.allocate = noMemory;
  allocator.refill = noMemory;
  const isRemoved = (key: string) => {
    try {
      return other.pool.run(other.index.remove(requestFor(other, key)));
    } catch {
      return false;
    }
  };
  assert.ok(keys.slice(0, 50).some(isRemoved));
  const before = countFull(other);
  assert.equal(release(other), 0);
  assert.equal(countFull(other), before);
});

/** A segment whose MainSegment stands in the spare place: the compacting client has died. */
function displaced(scope: Scope): { other: Client; snapshot: Snapshot } {
  const { other } = fullPool(scope);
  const { allocator } = other.pool;
  // Whatever others give back meanwhile.
  allocator.allocate = noMemory;
  allocator.refill = noMemory;
  let graces = 0;
  function* dying(): Operation<boolean> {
    yield* [];
    return ++graces === 1;
  }
  other.pool.run(other.index.compact(dying, true));
  let snapshot: Snapshot | undefined;
  other.pool.run(
    eachSegment(other.index.table, function* ({ main }) {
      if (main.home === 0) return;
      snapshot = new Snapshot(other.index.table);
      yield* snapshot.take(main.suffix);
    }),
  );
  assert.ok(snapshot);
  return { other, snapshot };
}

/** Overwrites two halves of a word of the pool. */
function overwrite({ pool }: Client, address: Address, low: number, high: number): void {
  const words = new Scratch(8);
  words.i32.set([low, high]);
  pool.fabric.execute(new Batch().write(address, 8, words, 0));
}

function refusesToGoHome({ pool, index }: Client, text: RegExp): void {
  assert.throws(
    () => pool.run(index.compact(atOnce, true)),
    (error) => {
      assert.ok(error instanceof StepwellError && error.code === 'SW_POOL_CORRUPT', String(error));
      return text.test(error.message);
    },
  );
}

test('a compaction that died is finished by the next one', (t) => {
  const { other, snapshot } = displaced(t);
  other.pool.run(other.index.compact(atOnce, true));
  other.pool.run(snapshot.take(snapshot.main.suffix));
  assert.equal(snapshot.main.home, 0);
});

const HOME = 40;

test('a MainSegment that has a home and stands elsewhere than in the spare place is damage', (t) => {
  const { other, snapshot } = displaced(t);
  const { home, depth } = snapshot.main;
  const image = new Scratch(MAIN_HEADER_BYTES);
  const { spare } = other.index.table.directory.parts;
  other.pool.fabric.execute(new Batch().read(spare, MAIN_HEADER_BYTES, image, 0));
  other.pool.fabric.execute(new Batch().write(home, MAIN_HEADER_BYTES, image, 0));
  const high = metaHigh(home, depth, snapshot.metaHigh >>> 9);
  overwrite(other, snapshot.header, metaLow(home), high);
  refusesToGoHome(other, /has a home/);
});

test('a MainSegment with more entries than its home takes is not copied there', (t) => {
  const { other, snapshot } = displaced(t);
  const { count, units } = snapshot.main;
  const { geometry, directory } = other.index.table;
  const dropped = geometry.homeEntries(units) - count + 1;
  overwrite(other, directory.parts.spare, count, dropped);
  refusesToGoHome(other, /entries/);
});

test('a home that is no block of a MainSegment is not written to', (t) => {
  const { other, snapshot } = displaced(t);
  const { spare } = other.index.table.directory.parts;
  overwrite(other, spare + HOME, snapshot.main.home + 64, 0);
  refusesToGoHome(other, /no block/);
});

test('what another segment has written to the spare place meanwhile is not copied home', (t) => {
  const { other } = displaced(t);
  const { spare } = other.index.table.directory.parts;
  const going = other.index.compact(atOnce, true);
  assert.throws(() => {
    for (let step = going.next(); !step.done; step = going.next()) {
      const { kind, address, bytes, length } = step.value;
      const copies = length === 1 && kind[0] === READ && bytes[0] !== MAIN_HEADER_BYTES;
      if (copies && address[0] === spare) overwrite(other, spare + HOME, 64, 0);
      other.pool.fabric.execute(step.value);
    }
  }, /two segments/);
});
