import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClientRates, PoolFigures, StoreFigures } from '../../store/watching/figures.ts';
import { formatLatency } from '../../store/watching/units.ts';
import { frameOf } from '../commands/top.ts';
import { styleFor } from '../terminal/style.ts';

const PLAIN = styleFor(false, {});
const LATENCY = { p50: 0.8, p90: 12, p99: 3400, p999: 1e6 };
const NOTHING = { scanned: 0, hitRate: null, readLatency: null, writeLatency: null };

const MEMORY: PoolFigures['memory'] = {
  total: 4 * 2 ** 20,
  live: 2 ** 19,
  claimed: 1024,
  waiting: 0,
  freeBlocks: 2048,
  freeChunks: 3 * 2 ** 20,
  overhead: 2 ** 18,
  stores: [],
  blocks: [],
};

function client(id: number, more: Partial<ClientRates> = {}): ClientRates {
  const who = { id, name: `worker ${id}`, pid: 100 + id, network: false, alive: true, lags: false };
  const held = { claimed: 0, waiting: 0, toldAgo: 0 };
  return { ...who, ...NOTHING, ...held, attachedAt: 0, reads: 0, writes: 0, ...more };
}

function store(name: string, more: Partial<StoreFigures> = {}): StoreFigures {
  const nothing = { state: 'ready', ordered: false, load: null, bound: null } as const;
  return { name, index: 'race', bytes: 2 ** 20, ...nothing, ...more };
}

function figures(more: Partial<PoolFigures> = {}): PoolFigures {
  return {
    at: 65_000,
    url: 'shm:demo',
    createdAt: 0,
    sizeMax: 4 * 2 ** 20,
    bytesUsed: 2 ** 20,
    memory: MEMORY,
    clientsMax: 128,
    sum: { ...NOTHING, reads: 1234, writes: 56, hitRate: 0.5, readLatency: LATENCY },
    clients: [client(1)],
    stores: [store('default')],
    ...more,
  };
}

test('a view tells rates, percentiles, hits, memory and how old a figure is', () => {
  const bound = { maxRecords: 500, eviction: 'lru', records: 499, bytes: 1, evictions: 9 } as const;
  const bounded = { ...bound, hits: 1, misses: 1, evictionsPerSecond: 7, hitRate: 0.25 };
  const load = { records: 300, slots: 400, isExact: false, ago: 0 };
  const text = frameOf(
    figures({
      clients: [client(1, { toldAgo: null }), client(2, { toldAgo: 1200, reads: 77 })],
      stores: [store('cache', { bound: bounded }), store('plain', { load })],
    }),
    { columns: Number.POSITIVE_INFINITY },
    PLAIN,
  ).join('\n');
  assert.match(text, /^Reads {4}1,234\/s +p50 0\.80 µs +p90 12 µs +p99 3\.4 ms +hits 50\.0%$/m);
  assert.match(text, /^Memory .* 1 MiB of 4 MiB, 25\.0%$/m);
  assert.match(text, /^Clients {2}2 of 128, 1 without figures$/m);
  assert.match(text, /^cache +race +499 +- +1 MiB +500 lru +25\.0% +7$/m);
  assert.match(text, /^plain +race +~300 +~75\.0% +1 MiB/m);
  assert.match(text, /^worker 2 +102 +77 .* 1\.2 s ago$/m);
  assert.ok(text.indexOf('worker 2') < text.indexOf('worker 1'), 'the busiest comes first');
});

test('a view tells where the memory is, whose memory waits, and who holds it back', () => {
  const view = (more: Partial<PoolFigures>) =>
    frameOf(figures(more), { columns: Number.POSITIVE_INFINITY }, PLAIN).join('\n');
  const parts =
    'live 512 KiB, free 2 KiB in blocks and 3 MiB in chunks, claimed ahead 1 KiB, overhead 256 KiB';
  assert.ok(view({}).includes(`\n         ${parts}\n`));
  assert.doesNotMatch(view({}), /^Waiting/m);
  const clients = [1, 2, 3, 4].map((i) => client(i, { waiting: 1024 * i, lags: i === 2 }));
  const waiting = view({
    memory: { ...MEMORY, waiting: 10_240 },
    clients: [...clients, client(5)],
  });
  const owners = 'worker 4 4 KiB, worker 3 3 KiB, worker 2 2 KiB';
  assert.ok(waiting.includes(`\nWaiting  10 KiB: ${owners}; held back by worker 2\n`), waiting);
  const gone = view({ memory: { ...MEMORY, waiting: 10_240 }, clients: [client(1)] });
  assert.match(gone, /^Waiting {2}10 KiB$/m);
});

test('a view fits its terminal, and says how much it leaves out', () => {
  const many = Array.from({ length: 30 }, (_, i) => i);
  const all = figures({
    clients: many.map((i) => client(i + 1)),
    stores: many.map((i) => store(`s${i}`)),
  });
  for (const [columns, rows] of [
    [80, 24],
    [40, 12],
    [200, 60],
  ]) {
    const lines = frameOf(all, { columns, rows }, PLAIN);
    assert.ok(lines.length <= rows, `${lines.length} lines in ${rows}`);
    assert.ok(lines.every((line) => [...line].length <= columns));
    if (rows < 60) assert.match(lines.join('\n'), /… \d+ more/);
  }
});

test('names from the pool cannot drive the terminal', () => {
  const evil = figures({ url: 'shm:\x1b[2J', clients: [client(1, { name: 'a\x1b]0;b' })] });
  assert.ok(!frameOf(evil, { columns: 200 }, PLAIN).join('').includes('\x1b'));
});

test('latencies have as many digits as they are worth', () => {
  const texts = [0.451, 2.34, 12.3, 999, 3400, 45_000, 1.2e6].map(formatLatency);
  assert.deepEqual(texts, ['0.45 µs', '2.3 µs', '12 µs', '999 µs', '3.4 ms', '45 ms', '1.2 s']);
});
