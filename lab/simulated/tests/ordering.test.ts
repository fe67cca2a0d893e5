import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../src/random/prng.ts';
import { Batch, CAS, FAA, READ, REGION_STRIDE, Scratch, WRITE } from '../../../src/verbs/index.ts';
import { type LocalModel, SHARED_WITH_NIC } from '../local-door.ts';
import { SimulatedMemory } from '../memory.ts';
import type { Place } from '../network.ts';
import { addLoop, newNetwork, REGION_BYTES, single } from './support/rig.ts';

/** Bytes of the pool that one verb of a recorded batch has for itself. */
const PLACE = 1024;
const VERBS = 6;
/** Longer than a NIC takes for a message, so that nothing is in order by its arrival alone. */
const WIDE = { readWindowNs: 1000, writeWindowNs: 1000 };

/** Notes which place is touched when, line by line. */
class RecordingMemory extends SimulatedMemory {
  readonly touched: number[] = [];

  override read(address: number, bytes: number, scratch: Scratch, local: number): void {
    this.touched.push(address);
    super.read(address, bytes, scratch, local);
  }

  override write(address: number, bytes: number, scratch: Scratch, local: number): void {
    this.touched.push(address);
    super.write(address, bytes, scratch, local);
  }

  override compareAndSwap(address: number, scratch: Scratch, local: number): void {
    this.touched.push(address);
    super.compareAndSwap(address, scratch, local);
  }

  override fetchAndAdd(address: number, scratch: Scratch, local: number): void {
    this.touched.push(address);
    super.fetchAndAdd(address, scratch, local);
  }
}

/** A batch whose verb i touches place i only, on the node that `nodes` says. */
function randomBatch(prng: Prng, nodes: number): Batch {
  const batch = new Batch();
  const scratch = new Scratch(VERBS * PLACE);
  for (let i = 0; i < VERBS; i++) {
    const address = i * PLACE + REGION_STRIDE * prng.below(nodes);
    const bytes = 8 * (1 + prng.below(32));
    const kind = prng.below(4);
    if (kind === READ) batch.read(address, bytes, scratch, i * PLACE);
    else if (kind === WRITE) batch.write(address, bytes, scratch, i * PLACE);
    else if (kind === CAS) batch.cas(address, scratch, i * PLACE);
    else if (kind === FAA) batch.faa(address, scratch, i * PLACE);
  }
  return batch;
}

/** How often a later verb was touched before an earlier one, by whether the contract allows it. */
function overtakings(batch: Batch, touched: readonly number[]) {
  const first = new Array<number>(VERBS).fill(Number.POSITIVE_INFINITY);
  const last = new Array<number>(VERBS).fill(-1);
  touched.forEach((address, at) => {
    const verb = Math.floor((address % REGION_STRIDE) / PLACE);
    first[verb] = Math.min(first[verb], at);
    last[verb] = Math.max(last[verb], at);
  });
  let allowed = 0;
  let forbidden = 0;
  for (let j = 1; j < VERBS; j++) {
    for (let i = 0; i < j; i++) {
      if (first[j] > last[i]) continue;
      if (batch.kind[i] !== WRITE && batch.kind[j] === WRITE) allowed++;
      else forbidden++;
    }
  }
  return { allowed, forbidden };
}

function recordBatches(
  nodes: number,
  acrossNodes: 'ordered' | 'unordered',
  place: Place = 0,
  local: LocalModel = SHARED_WITH_NIC,
) {
  const memory = new RecordingMemory({ regions: nodes, regionBytes: REGION_BYTES, nodes });
  const network = newNetwork({ memory, acrossNodes, model: WIDE, local: { ...local, ...WIDE } });
  const prng = Prng.fromSeed(7);
  const sum = { allowed: 0, forbidden: 0 };
  let left = 2000;
  addLoop(network, place, 1, () => (left-- > 0 ? recorded() : undefined));
  function* recorded() {
    const batch = randomBatch(prng, nodes);
    memory.touched.length = 0;
    yield batch;
    const { allowed, forbidden } = overtakings(batch, memory.touched);
    sum.allowed += allowed;
    sum.forbidden += forbidden;
  }
  network.run();
  assert.equal(left, -1);
  return sum;
}

test('one queue pair: a WRITE overtakes READs and atomics, nothing else overtakes', () => {
  const { allowed, forbidden } = recordBatches(1, 'ordered');
  assert.equal(forbidden, 0);
  assert.ok(allowed > 500, `only ${allowed} of the allowed reorderings happened`);
});

test('over several nodes a batch is ordered by waiting, or else not at all', () => {
  const ordered = recordBatches(3, 'ordered');
  assert.equal(ordered.forbidden, 0);
  assert.ok(ordered.allowed > 200, `only ${ordered.allowed}`);
  const { forbidden } = recordBatches(3, 'unordered');
  assert.ok(forbidden > 500, `only ${forbidden}`);
});

test('beside its memory a CPU does verbs in their order, whichever door atomics take', () => {
  const beside = { memoryNode: 0 };
  const coherent = recordBatches(1, 'ordered', beside);
  assert.deepEqual(coherent, { allowed: 0, forbidden: 0 });
  const loopback: LocalModel = { ...SHARED_WITH_NIC, atomics: 'loopback' };
  assert.equal(recordBatches(1, 'ordered', beside, loopback).forbidden, 0);
  // With other nodes' memory, and 'unordered' there: a CPU waits in any case.
  for (const local of [SHARED_WITH_NIC, loopback]) {
    assert.equal(recordBatches(3, 'ordered', beside, local).forbidden, 0);
    assert.equal(recordBatches(3, 'unordered', beside, local).forbidden, 0);
  }
});

test('coroutines of a thread share its queue pairs, threads do not', () => {
  const overtaken = (threads: number, coroutines: number) => {
    const memory = new RecordingMemory({ regions: 1, regionBytes: REGION_BYTES });
    const network = newNetwork({ memory, model: { readWindowNs: 2000 } });
    let place = 0;
    const next = () => single((batch, scratch) => batch.read(64 * place++, 8, scratch, 0));
    for (let i = 0; i < threads; i++) addLoop(network, 0, coroutines, next);
    network.run(200_000);
    return memory.touched.filter((address, at) => address < memory.touched[at - 1]).length;
  };
  assert.equal(overtaken(1, 1), 0);
  assert.equal(overtaken(1, 8), 0);
  assert.ok(overtaken(8, 1) > 20);
});

/** Readers and a writer of the same 256 bytes, whose words all hold the same number twice. */
function mixtures() {
  const network = newNetwork({ computeNodes: 2 });
  let mixed = 0;
  let torn = 0;
  let version = 0;
  addLoop(network, 0, 2, () => single(writeVersion, 256));
  function writeVersion(batch: Batch, scratch: Scratch) {
    scratch.i32.fill(++version);
    batch.write(0, 256, scratch, 0);
  }
  addLoop(network, 1, 2, () => inspect());
  function* inspect() {
    const { i32 } = yield* single((batch, scratch) => batch.read(0, 256, scratch, 0), 256);
    for (let word = 0; word < 64; word += 2) {
      if (i32[word] !== i32[word + 1]) torn++;
    }
    for (let line = 16; line < 64; line += 16) {
      if (i32[line] === i32[0]) continue;
      mixed++;
      break;
    }
  }
  network.run(3_000_000);
  return { mixed, torn };
}

test('lines of a READ are of different times, words never are', () => {
  const { mixed, torn } = mixtures();
  assert.equal(torn, 0);
  assert.ok(mixed > 20, `${mixed} READs met a half-done WRITE`);
});

test('lines are touched in every order, and each once', () => {
  const memory = new RecordingMemory({ regions: 1, regionBytes: REGION_BYTES });
  const network = newNetwork({ memory });
  const orders = new Set<string>();
  let left = 200;
  addLoop(network, 0, 1, () => (left-- > 0 ? readThree() : undefined));
  function* readThree() {
    memory.touched.length = 0;
    yield* single((batch, scratch) => batch.read(40, 128, scratch, 0), 128);
    assert.equal(new Set(memory.touched).size, 3);
    orders.add(memory.touched.join());
  }
  network.run();
  assert.equal(orders.size, 6);
});
