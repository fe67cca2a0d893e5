import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batch, Scratch } from '../../../src/verbs/index.ts';
import { postCall } from '../call.ts';
import { CONNECTX5 } from '../model.ts';
import { addLoop, newNetwork, type RigOptions, rateOf, single } from './support/rig.ts';

const NS_PER_BYTE = (8 * 1e9) / CONNECTX5.bitsPerSecond;
const MESSAGE_NS = 1e9 / CONNECTX5.messagesPerSecond;
/** Without chance, so that times are exact. */
const EXACT = { readWindowNs: 0, writeWindowNs: 0 };

type Post = (batch: Batch, scratch: Scratch, client: number) => void;

function latencyOf(post: Post, bytes: number): number {
  const network = newNetwork({ model: EXACT });
  let left = 1;
  const ended = addLoop(network, 0, 1, () =>
    left-- > 0 ? single((batch, scratch) => post(batch, scratch, 0), bytes) : undefined,
  );
  network.run();
  return ended[0].ended - ended[0].began;
}

/** Clients on eight compute nodes, so that the memory node is what limits. */
function saturate(post: Post, bytes: number, options: RigOptions = {}) {
  const network = newNetwork({ computeNodes: 8, ...options });
  const loops = Array.from({ length: 64 }, (_, client) =>
    addLoop(network, client % 8, 4, () =>
      single((batch, scratch) => post(batch, scratch, client), bytes),
    ),
  );
  return { rate: rateOf(network, loops, 1e6), use: network.measure() };
}

function near(actual: number, expected: number, share = 0.02): void {
  const off = Math.abs(actual / expected - 1);
  assert.ok(off <= share, `${actual} is not within ${share} of ${expected}`);
}

test('without a queue a READ takes the round trip and its services', () => {
  const bytes = 128;
  const { stepNs, verbNs, roundTripNs, headerBytes } = CONNECTX5;
  const cpu = 2 * stepNs + verbNs;
  const wire = (2 * headerBytes + bytes) * NS_PER_BYTE;
  const expected = cpu + roundTripNs + 2 * MESSAGE_NS + wire;
  near(
    latencyOf((batch, scratch) => batch.read(0, bytes, scratch, 0), bytes),
    expected,
    1e-9,
  );
});

test('a payload beyond a PCIe packet takes longer by its packets', () => {
  const { packetNs } = { ...CONNECTX5, ...EXACT };
  const read = (bytes: number) =>
    latencyOf((batch, scratch) => batch.read(0, bytes, scratch, 0), bytes);
  const perByte = (read(256) - read(128)) / 128;
  near(perByte, NS_PER_BYTE, 1e-6);
  const beyond = read(512) - read(256) - 256 * NS_PER_BYTE;
  assert.ok(beyond >= 0 && beyond <= packetNs, `${beyond}`);
});

test('many clients saturate the message rate of the memory node', () => {
  const { rate, use } = saturate((batch, scratch) => batch.read(0, 64, scratch, 0), 64);
  near(rate, CONNECTX5.messagesPerSecond);
  near(use.memoryNodes[0].messages, 1);
  assert.ok(use.computeNodes.every(({ messages }) => messages < 0.5));
});

test('large READs saturate the link out of the memory node, large WRITEs the one into it', () => {
  const expected = 1e9 / ((4096 + CONNECTX5.headerBytes) * NS_PER_BYTE);
  const reads = saturate((batch, scratch) => batch.read(0, 4096, scratch, 0), 4096);
  near(reads.rate, expected);
  near(reads.use.memoryNodes[0].outbound, 1);
  const writes = saturate((batch, scratch) => batch.write(0, 4096, scratch, 0), 4096);
  near(writes.rate, expected);
  near(writes.use.memoryNodes[0].inbound, 1);
});

test('atomics on one word wait for each other, on many words for the unit', () => {
  const hot = saturate((batch, scratch) => batch.faa(0, scratch, 0), 64);
  near(hot.rate, 1e9 / CONNECTX5.wordNs);
  const spread = saturate((batch, scratch, client) => batch.faa(64 * client, scratch, 0), 64);
  near(spread.rate, CONNECTX5.atomicsPerSecond);
  near(spread.use.memoryNodes[0].atomics, 1);
});

test('two memory nodes serve twice as much', () => {
  const post: Post = (batch, scratch, client) => batch.read(2 ** 31 * (client % 2), 64, scratch, 0);
  near(saturate(post, 64, { memoryNodes: 2 }).rate, 2 * CONNECTX5.messagesPerSecond);
});

test('coroutines raise throughput until the CPU of their thread is busy', () => {
  const { stepNs, verbNs } = CONNECTX5;
  const rate = (coroutines: number) => {
    const network = newNetwork();
    const loop = addLoop(network, 0, coroutines, () =>
      single((batch, scratch) => batch.read(0, 64, scratch, 0)),
    );
    return { rate: rateOf(network, [loop], 1e6), cpu: network.measure().clientCpu.most };
  };
  const one = rate(1);
  const two = rate(2);
  const sixteen = rate(16);
  near(two.rate, 2 * one.rate, 0.05);
  near(sixteen.rate, 1e9 / (2 * stepNs + verbNs));
  near(sixteen.cpu, 1);
  near(one.cpu, one.rate / sixteen.rate);
});

test('calls wait for the few cores that answer them', () => {
  const post: Post = (batch, scratch) => postCall(batch, 0, 8, scratch, 0);
  const one = saturate(post, 64);
  near(one.rate, 1e9 / CONNECTX5.callNs);
  near(one.use.memoryNodes[0].calls, 1);
  near(saturate(post, 64, { model: { callCores: 3 } }).rate, 3e9 / CONNECTX5.callNs);
});
