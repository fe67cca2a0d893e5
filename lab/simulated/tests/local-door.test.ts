import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Batch, type Scratch, swapped } from '../../../src/verbs/index.ts';
import { type LocalModel, SHARED_WITH_NIC } from '../local-door.ts';
import { CONNECTX5 } from '../model.ts';
import type { Place } from '../network.ts';
import { addLoop, newNetwork, single } from './support/rig.ts';

/** Without chance, so that times are exact. */
const EXACT = { readWindowNs: 0, writeWindowNs: 0 };
const COHERENT: LocalModel = { ...SHARED_WITH_NIC, ...EXACT };
const LOOPBACK: LocalModel = { ...COHERENT, atomics: 'loopback' };
const BESIDE: Place = { memoryNode: 0 };
const OTHER_NODE = 2 ** 31;

type Post = (batch: Batch, scratch: Scratch) => void;

function alone(post: Post, place: Place, local = COHERENT) {
  const network = newNetwork({ model: EXACT, memoryNodes: 2, local });
  network.beginMeasurement();
  let left = 1;
  const [end] = [addLoop(network, place, 1, () => (left-- > 0 ? single(post) : undefined))];
  network.run();
  assert.equal(network.answered, network.posted);
  return { ns: end[0].ended - end[0].began, nic: network.measure().memoryNodes[0] };
}

test('a verb by the CPU costs what shared memory costs, and no NIC', () => {
  const { verbNs, roundTripNs } = SHARED_WITH_NIC;
  const posts: Post[] = [
    (batch, scratch) => batch.read(0, 64, scratch, 0),
    (batch, scratch) => batch.write(0, 64, scratch, 0),
    (batch, scratch) => batch.cas(0, scratch, 0),
    (batch, scratch) => batch.faa(0, scratch, 0),
  ];
  for (const post of posts) {
    const { ns, nic } = alone(post, BESIDE);
    assert.equal(ns, 2 * CONNECTX5.stepNs + verbNs + roundTripNs);
    assert.deepEqual([nic.messages, nic.atomics, nic.outbound], [0, 0, 0]);
  }
});

test('an atomic by loopback is the NIC\u2019s, as often as a remote one: sent, received, locked', () => {
  const cas: Post = (batch, scratch) => batch.cas(0, scratch, 0);
  const { ns, nic } = alone(cas, BESIDE, LOOPBACK);
  const remote = alone(cas, 0, LOOPBACK);
  assert.equal(ns, remote.ns);
  assert.ok(nic.atomics > 0);
  // Here it is sender and receiver.
  assert.ok(nic.messages * ns > 1.9 * remote.nic.messages * remote.ns);
  // What is not an atomic is the CPU's all the same.
  assert.equal(
    alone((batch, scratch) => batch.read(0, 8, scratch, 0), BESIDE, LOOPBACK).nic.messages,
    0,
  );
});

test('memory of another node is as far away as from anywhere', () => {
  const read: Post = (batch, scratch) => batch.read(OTHER_NODE, 64, scratch, 0);
  assert.equal(alone(read, BESIDE).ns, alone(read, 0).ns);
});

test('a READ sees the WRITE in front of it in one batch', () => {
  const network = newNetwork({ local: SHARED_WITH_NIC });
  const seen: number[] = [];
  addLoop(network, BESIDE, 1, () => (seen.length < 20 ? writeAndRead(seen.length) : undefined));
  function* writeAndRead(number: number) {
    const { i32 } = yield* single((batch, scratch) => {
      scratch.i32[0] = number;
      batch.write(0, 8, scratch, 0).read(0, 8, scratch, 8);
    });
    seen.push(i32[2]);
  }
  network.run();
  assert.deepEqual(seen, [...seen.keys()]);
});

const COUNTS = 200;

/** Threads at both doors count one word up, by FAA and by CAS; returns what each found there. */
function countTogether(local: LocalModel): { found: number[]; last: number } {
  const network = newNetwork({ computeNodes: 2, local });
  const found: number[] = [];
  const places: Place[] = [0, 1, 0, 1, BESIDE, BESIDE];
  for (const place of places) {
    let left = COUNTS;
    addLoop(network, place, 2, () => (left-- > 0 ? increment(left % 2 === 0) : undefined));
  }
  function* increment(byCas: boolean) {
    for (let expected = 0; byCas; ) {
      const scratch = yield* single((batch, words) => {
        words.i32[0] = expected;
        words.i32[2] = expected + 1;
        batch.cas(0, words, 0);
      });
      if (swapped(scratch, 0)) return found.push(expected);
      expected = scratch.i32[4];
    }
    const { i32 } = yield* single((batch, words) => {
      words.i32[0] = 1;
      batch.faa(0, words, 0);
    });
    return found.push(i32[2]);
  }
  network.run();
  return { found, last: network.memory.window(0, 8)[0] + 256 * network.memory.window(0, 8)[1] };
}

test('atomics of both doors are exact with each other', () => {
  for (const local of [SHARED_WITH_NIC, { ...SHARED_WITH_NIC, atomics: 'loopback' as const }]) {
    const { found, last } = countTogether(local);
    assert.equal(last, 6 * COUNTS);
    assert.deepEqual(
      found.sort((a, b) => a - b),
      Array.from({ length: 6 * COUNTS }, (_, i) => i),
    );
  }
});

/** Mean time of an atomic by the CPU, on a word that the NIC's atomics want or on another one. */
function besideBusyWord(local: LocalModel, address: number): number {
  const network = newNetwork({ computeNodes: 4, local });
  for (let i = 0; i < 8; i++) {
    addLoop(network, i % 4, 1, () => single((batch, scratch) => batch.faa(0, scratch, 0)));
  }
  let left = 100;
  const ended = addLoop(network, BESIDE, 1, () =>
    left-- > 0 ? single((batch, scratch) => batch.faa(address, scratch, 0)) : undefined,
  );
  network.run(1e6);
  assert.equal(ended.length, 100);
  return ended.reduce((sum, one) => sum + one.ended - one.began, 0) / ended.length;
}

test('an atomic by the CPU waits for the NIC\u2019s on its word, and for no other', () => {
  const { wordNs } = CONNECTX5;
  assert.ok(besideBusyWord(COHERENT, 0) > besideBusyWord(COHERENT, 512) + wordNs);
  assert.ok(besideBusyWord(LOOPBACK, 0) > besideBusyWord(COHERENT, 512) + wordNs);
});
