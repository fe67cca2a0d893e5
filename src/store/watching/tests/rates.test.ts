import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClientFigures } from '../../../pool/clients/meter.ts';
import type { ClientLook } from '../../administration/look.ts';
import { boundRates, ClientMeters, sumOf } from '../observer.ts';

const LATENCY = { p50: 1, p90: 2, p99: 3, p999: 4 };

function told(toldAt: number, counts: Partial<ClientFigures>): ClientFigures {
  const nothing = { reads: 0, misses: 0, writes: 0, scanned: 0, claimed: 0, waiting: 0 };
  return { toldAt, ...nothing, read: LATENCY, write: LATENCY, ...counts };
}

function client(figures: ClientFigures | undefined, more: Partial<ClientLook> = {}): ClientLook {
  const who = { id: 1, name: 'one', pid: 7, network: false, self: false, alive: true };
  return { ...who, attachedAt: 1, claimed: 64, waiting: 128, lagsAt: 0, figures, ...more };
}

test('a rate is what was told between two looks, by the time of the client that told it', () => {
  const meters = new ClientMeters();
  meters.take([client(told(5_000, { reads: 100, misses: 10 }))], 9000, 8000);
  const after = told(6_000, { reads: 300, misses: 60, writes: 50, scanned: 7 });
  const [one] = meters.take([client(after)], 10_000, 9000);
  assert.deepEqual([one.reads, one.writes, one.scanned, one.hitRate], [200, 50, 7, 0.75]);
  assert.deepEqual([one.claimed, one.waiting], [64, 128]);
  assert.deepEqual([one.toldAgo, one.readLatency], [0, LATENCY]);
});

test('counts that went round 2^32 still make a rate', () => {
  const meters = new ClientMeters();
  meters.take([client(told(5000, { reads: 2 ** 32 - 50 }))], 9000, 8000);
  const [one] = meters.take([client(told(6000, { reads: 50 }))], 10_000, 9000);
  assert.equal(one.reads, 100);
});

test('a client that has told nothing for a while does nothing, and its age is told', () => {
  const meters = new ClientMeters();
  const same = client(told(5000, { reads: 100 }), { attachedAt: 8500 });
  const [first] = meters.take([same], 9000, 8000);
  assert.ok(first.reads > 0);
  const [later] = meters.take([same], 13_000, 12_000);
  assert.deepEqual([later.reads, later.hitRate, later.toldAgo], [0, null, 4000]);
});

test('what was done before the first look says nothing of now, nor does another client', () => {
  const meters = new ClientMeters();
  const [first] = meters.take([client(told(5000, { reads: 1e6 }))], 9000, 8000);
  assert.equal(first.reads, 0);
  const other = client(told(9400, { reads: 50 }), { attachedAt: 9100 });
  const [next] = meters.take([other], 9500, 9000);
  assert.ok(next.reads > 0 && next.reads < 1000);
  const late = client(undefined, { id: 3 });
  meters.take([late], 10_000, 9500);
  const [told3] = meters.take([{ ...late, figures: told(9900, { reads: 40 }) }], 11_000, 10_000);
  assert.equal(told3.reads, 20, 'it told nothing before, so all of it is new');
});

test('the client that looks is left out, and one that tells nothing has no age', () => {
  const looking = client(undefined, { id: 2, self: true });
  const found = new ClientMeters().take([client(undefined), looking], 9000, 9000);
  assert.deepEqual(
    found.map(({ id, toldAgo }) => [id, toldAgo]),
    [[1, null]],
  );
});

test('a client holds back memory when it has announced the same old epoch at two looks', () => {
  const meters = new ClientMeters();
  const lags = (lagsAt: number, at: number) =>
    meters.take([client(undefined, { lagsAt })], at, at - 1000)[0].lags;
  const seen = [7, 7, 8, 0, 0].map((lagsAt, i) => lags(lagsAt, 9000 + 1000 * i));
  assert.deepEqual(seen, [false, true, false, false, false]);
});

test('all together: sums, hits by reads, and the percentiles of the slowest', () => {
  const slow = { p50: 9, p90: 9, p99: 9, p999: 9 };
  const nothing = { writes: 0, scanned: 0, writeLatency: null };
  const sum = sumOf([
    { ...nothing, reads: 300, hitRate: 1, readLatency: LATENCY },
    { ...nothing, reads: 100, hitRate: 0, readLatency: slow },
    { ...nothing, reads: 0, hitRate: null, readLatency: { p50: 99, p90: 99, p99: 99, p999: 99 } },
  ]);
  assert.deepEqual([sum.reads, sum.hitRate, sum.readLatency], [400, 0.75, slow]);
  assert.equal(sumOf([]).readLatency, null);
});

test('a bounded store: evictions a second, and hits since the last look', () => {
  const now = {
    eviction: 'lru',
    records: 5,
    bytes: 9,
    evictions: 40,
    hits: 90,
    misses: 30,
  } as const;
  const rates = boundRates({ ...now, evictions: 20, hits: 60, misses: 20 }, now, 2000);
  assert.deepEqual([rates.evictionsPerSecond, rates.hitRate], [10, 0.75]);
  assert.deepEqual([boundRates(undefined, now, 1).evictionsPerSecond], [0]);
});
