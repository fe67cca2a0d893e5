import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONNECTX5 } from '../../simulated/model.ts';
import { measureAll } from '../hstore-basics.ts';
import { DEPLOYMENTS } from '../hstore-deployment.ts';

const SETTINGS = { model: CONNECTX5, seed: 1, operations: 100 };
const CLIENTS = 8;

function measured(name: string) {
  const deployment = DEPLOYMENTS.find((one) => one.name === name);
  assert.ok(deployment);
  const wishes = { buckets: 8192, rows: 64, pairs: deployment.pairs };
  const system = { name, index: 'hstore', wishes, deployment };
  const { PUT } = measureAll(SETTINGS, system, CLIENTS, ['PUT']);
  assert.ok(PUT);
  return PUT;
}

test('every nanosecond of a PUT is in one phase, the wait for its turn in its own', () => {
  const { put, latencies } = measured('network');
  const { forOthers, ...phases } = put;
  const sum = Object.values(phases).reduce((all, ns) => all + ns, 0);
  const whole = latencies.mean * latencies.count;
  assert.ok(Math.abs(sum / whole - 1) < 0.01, `${sum} of ${whole}`);
  for (const [phase, ns] of Object.entries(phases)) assert.ok(ns > 0, phase);
  // Turns are one behind the other: a request waits for a part of one, and is in one.
  const turn = put.indexOperation + put.decision + put.changes;
  assert.ok(put.queueWait > 0.1 * turn && put.queueWait < 1.5 * turn);
  assert.ok(forOthers > 0 && forOthers < turn);
});

test('a server beside the memory answers PUTs several times as fast', () => {
  const network = measured('network');
  const beside = measured('beside');
  const loopback = measured('beside, loopback');
  assert.ok(beside.latencies.mean < 0.5 * network.latencies.mean);
  // Most of what a turn writes it writes by CAS.
  assert.ok(beside.latencies.mean < 0.7 * loopback.latencies.mean);
  assert.ok(loopback.latencies.mean < network.latencies.mean);
});
