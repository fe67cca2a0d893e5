import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONNECTX5 } from '../../simulated/model.ts';
import { coroutines } from '../coroutines.ts';
import { directoryCache } from '../directory-cache.ts';
import type { Experiment } from '../experiment.ts';
import { latency } from '../latency.ts';
import { difference, printed } from '../report.ts';
import { resizing } from '../resizing.ts';
import { shardAlpha } from '../shard-alpha.ts';
import { shardResizing } from '../shard-resizing.ts';

const SETTINGS = { model: CONNECTX5, seed: 1, operations: 300 };

function rowsOf(experiment: Experiment): Map<string, number> {
  const { rows } = experiment.run(SETTINGS);
  return new Map(rows.map(({ what, ours }) => [what, ours]));
}

/** Wide bounds: that a figure is there and of the right kind, not how near it is. */
function between(value: number | undefined, low: number, high: number): void {
  assert.ok(value !== undefined && value >= low && value <= high, `${value}: ${low} to ${high}`);
}

test('latencies are in the order of their round trips', () => {
  const rows = rowsOf(latency);
  between(rows.get('search, median'), 3, 6);
  for (const kind of ['insert', 'delete', 'update']) between(rows.get(`${kind} to search`), 1.2, 2);
});

test('the directory cache saves one round trip', () => {
  const rows = rowsOf(directoryCache);
  assert.equal(rows.size, 4);
  for (const saved of rows.values()) between(saved, 15, 35);
});

test('coroutines saturate the client', () => {
  const rows = rowsOf(coroutines);
  between(rows.get('search: 16 coroutines to 1'), 2, 3);
  between(rows.get('search: 16 coroutines to 8'), 0.9, 1.1);
});

test('searches that wait for a resizing are slower by orders', () => {
  const rows = rowsOf(resizing);
  between(rows.get('subtable of 168 slots: waiting to concurrent'), 20, 1000);
});

test('a figure stands beside the paper’s with its relative difference', () => {
  const rows = [
    { what: 'a', ours: 3, unit: 'us', published: 2 },
    { what: 'b', ours: 1, unit: 'x' },
  ];
  assert.deepEqual(rows.map(difference), ['+50.0 %', '-']);
  const text = printed({ title: 'T', rows, notes: ['N'] });
  for (const part of ['T', 'N', '3.00 us', '2.00 us', '+50.0 %']) assert.ok(text.includes(part));
});

test('three indexes grow side by side', () => {
  const rows = rowsOf(shardResizing);
  for (const name of ['shard', 'race', 'sephash']) {
    between(rows.get(`${name}: insertions`), 0.1, 10);
  }
});

test('the larger alpha is, the fewer insertions synchronise', () => {
  const { rows } = shardAlpha.run(SETTINGS);
  const shares = rows.slice(0, 3).map(({ figures }) => Number(figures?.synchronisations));
  assert.ok(shares[0] > shares[1] && shares[1] > shares[2], `${shares}`);
  // As set, where that is more than a write and the distance has stopped doubling.
  between(Number(rows[1].figures?.measuredAlpha), 0.0005, 0.001);
});
