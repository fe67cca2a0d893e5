import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { runLab } from '../../tests/support/run-lab.ts';
import { combine } from '../crew.ts';
import { openMapPeer } from '../peers/map-peer.ts';
import type { SyncPeer } from '../peers/peer.ts';
import { LARGE_PEERS, LOAD, largeWorkloads, loadTasks, mainWorkloads, tasksOf } from '../plan.ts';
import type { PeerSettings, Task } from '../protocol.ts';
import { verdictTable } from '../report.ts';
import { judge, type Sample, summarize } from '../results.ts';
import { readSettings } from '../settings.ts';
import { wantedRatios } from '../wanted.ts';
import { Work } from '../work.ts';

const PEERS = ['map', 'lmdb', 'stepwell'];
const ONLY = ['--only', PEERS.join(',')];
const RECORDS = 500;
const SETTINGS: PeerSettings = {
  peer: 'map',
  records: RECORDS,
  place: '',
  capacity: 0,
  noSync: false,
  keepKeys: true,
};

function sample(workload: string, peer: Sample['peer'], round: number, ns: number): Sample {
  return { workload, peer, round, processes: 1, operations: 100, nanoseconds: ns };
}

/** A clock that advances by one nanosecond at every look. */
function countingClock() {
  let now = 0n;
  return () => now++;
}

async function loaded(peer: SyncPeer, settings = SETTINGS): Promise<Work> {
  const work = new Work(peer, settings, countingClock());
  for (const task of loadTasks(RECORDS, 3)) {
    work.prepare(task);
    await work.run(0n);
  }
  return work;
}

describe('plan', () => {
  it('loads every record exactly once, whatever the number of parts', () => {
    for (const parts of [1, 2, 3, 7]) {
      let next = 0;
      for (const { from, operations } of loadTasks(1000, parts)) {
        assert.equal(from, next);
        next += operations;
      }
      assert.equal(next, 1000);
    }
  });

  it('names every row once and knows every row that a wanted ratio refers to', () => {
    const workloads = [...mainWorkloads(), ...largeWorkloads()];
    const rows = new Map(workloads.map((workload) => [workload.name, workload]));
    assert.equal(rows.size, workloads.length);
    for (const { above, below } of wantedRatios()) {
      for (const side of [above, below]) {
        if (side.workload === LOAD) continue; // of every peer
        assert.ok(rows.get(side.workload)?.peers.includes(side.peer), JSON.stringify(side));
      }
    }
  });

  it('never gives two rounds, rows or processes the same sequence', () => {
    const seeds = new Set<number>();
    let tasks = 0;
    for (let round = 0; round < 6; round++) {
      for (const [place, workload] of mainWorkloads().entries()) {
        for (const { seed } of tasksOf(workload, place, round, {
          operations: 100,
          seed: 1,
          records: 500,
        })) {
          seeds.add(seed);
          tasks++;
        }
      }
    }
    assert.equal(seeds.size, tasks);
  });
});

describe('Work', () => {
  it('runs each operation on every key and proves what it read', async () => {
    const work = await loaded({
      ...bound(openMapPeer()),
      getMany: (keys: readonly string[]) => keys.map(() => new Uint8Array(1)),
    });
    await work.verify(100, 1);
    const shape = {
      distribution: 'zipf',
      freshKeys: true,
      from: 0,
      operations: 70,
      seed: 5,
    } as const;
    for (const operation of ['get', 'set', 'getMany'] as const) {
      work.prepare({ ...shape, operation });
      const { begin, end, operations } = await work.run(10n);
      assert.ok(begin >= 10n && end > begin);
      assert.equal(operations, 70);
    }
    await work.verify(100, 2);
  });

  it('gives every peer the same keys in the same order', async () => {
    const task: Task = {
      operation: 'get',
      distribution: 'zipf',
      freshKeys: false,
      from: 0,
      operations: 200,
      seed: 3,
    };
    const seen: string[][] = [];
    for (const keepKeys of [true, false]) {
      const keys: string[] = [];
      const peer = bound(openMapPeer());
      const get = (key: string) => {
        keys.push(key);
        return peer.get(key);
      };
      const work = await loaded({ ...peer, get }, { ...SETTINGS, keepKeys });
      work.prepare(task);
      await work.run(0n);
      seen.push(keys);
    }
    assert.equal(seen[0].length, 200);
    assert.deepEqual(seen[0], seen[1]);
  });

  it('fails when a peer loses a record or mixes up values', async () => {
    const losing = bound(openMapPeer());
    const work = await loaded({ ...losing, get: () => undefined });
    const shape = { distribution: 'uniform', freshKeys: false, from: 0, seed: 1 } as const;
    work.prepare({ ...shape, operation: 'get', operations: 10 });
    await assert.rejects(work.run(0n), /10 of 10 keys not found/);
    await assert.rejects(work.verify(1, 1), /does not have its value/);
    const mixing = bound(openMapPeer());
    const mixed = await loaded({ ...mixing, get: () => new Uint8Array(32) });
    await assert.rejects(mixed.verify(1, 1), /does not have its value/);
  });
});

/** A peer's methods as own properties, so that a test can replace one of them. */
function bound(peer: SyncPeer): SyncPeer {
  return {
    kind: 'sync',
    get: (key) => peer.get(key),
    set: (key, value) => peer.set(key, value),
    close: () => peer.close(),
  };
}

describe('results', () => {
  it('counts the processes of a run from the first begin to the last end', () => {
    const timings = [
      { begin: 105n, end: 200n, operations: 10 },
      { begin: 100n, end: 190n, operations: 20 },
    ];
    assert.deepEqual(combine(timings), { operations: 30, nanoseconds: 100 });
  });

  it('summarizes by row and peer', () => {
    const samples = [1, 2, 3].map((round) => sample('get', 'map', round, 1000 * round));
    const two = { ...sample('get', 'lmdb', 1, 1000), processes: 2, operations: 200 };
    const [map, lmdb] = summarize([...samples, two]);
    assert.deepEqual(map.nanosecondsPerOperation, { median: 20, minimum: 10, maximum: 30 });
    assert.equal(map.operationsPerSecond, 5e7);
    assert.equal(lmdb.nanosecondsPerOperation.median, 10);
    assert.equal(lmdb.operationsPerSecond, 2e8);
  });

  it('judges the median of the ratios within rounds', () => {
    const above = { workload: 'get', peer: 'stepwell' } as const;
    const below = { workload: 'get', peer: 'lmdb' } as const;
    const wanted = { claim: 'c', above, below, bound: 2, direction: 'at least' } as const;
    const samples = [1, 2, 3].flatMap((round) => [
      sample('get', 'stepwell', round, 100 * round),
      sample('get', 'lmdb', round, 200 * round + round),
    ]);
    assert.equal(judge(wanted, samples).verdict, 'reached');
    assert.equal(judge({ ...wanted, bound: 2.1 }, samples).verdict, 'not reached');
    assert.equal(judge({ ...wanted, direction: 'at most' }, samples).verdict, 'not reached');
    assert.equal(judge(wanted, samples.slice(0, 1)).verdict, 'not measured');
    assert.match(verdictTable([judge(wanted, samples)]), /at least 2x\s+2\.01x/);
  });
});

describe('settings', () => {
  it('shrinks with --quick but for what was given', () => {
    const quick = readSettings(['--quick', '--rounds=7', '--only', 'stepwell,map'], 42);
    assert.deepEqual([quick.rounds, quick.peers], [7, ['map', 'stepwell']]);
    assert.ok(quick.records < 100_000 && quick.url === 'shm:bench-42');
    assert.equal(readSettings(['--no-large'], 1).large, 0);
    assert.equal(readSettings([], 1).records, 1_000_000);
    assert.throws(() => readSettings(['--only', 'mongo'], 1), /not 'mongo'/);
  });
});

describe('stepwell-lab bench', () => {
  it('runs its peers in child processes and writes every figure', {
    timeout: 120_000,
  }, async () => {
    const directory = mkdtempSync(join(tmpdir(), 'stepwell-bench-test-'));
    try {
      const json = join(directory, 'bench.json');
      const place = ['--url', `file:${join(directory, 'pool')}`, '--json', json];
      const sizes = ['--records', '600', '--rounds', '1', '--operations', '300', '--large', '700'];
      const { code, output } = await runLab('bench', [...ONLY, ...sizes, ...place]);
      assert.equal(code, 0, output);
      assert.match(output, /set uniform, 2 processes/);
      const { samples, skipped } = JSON.parse(readFileSync(json, 'utf8'));
      assert.deepEqual(skipped, []);
      const rows = [...mainWorkloads(), ...largeWorkloads()].flatMap(({ peers }) => peers);
      const loads = PEERS.length + LARGE_PEERS.filter((peer) => PEERS.includes(peer)).length;
      assert.equal(samples.length, rows.filter((peer) => PEERS.includes(peer)).length + loads);
      assert.deepEqual(readdirSync(directory), ['bench.json'], 'the pools are gone');
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
