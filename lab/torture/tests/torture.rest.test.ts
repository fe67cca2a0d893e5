import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import type { IndexName } from '../../../src/store/api.ts';
import { openSync } from '../../../src/store/open.ts';
import { sharedMemoryDirectory } from '../../../src/store/places/pool-place.ts';
import { noPidNamespaces } from '../../../src/store/tests/support/processes/children.ts';
import { Prng } from '../../workloads/index.ts';
import { withCanary } from '../canary.ts';
import { ExpectedValues } from '../expected-values.ts';
import { type Disturbances, Round, type RoundReport } from '../round.ts';
import { Session } from '../session/session.ts';
import { Violation } from '../session/tested-store.ts';
import { type Canary, drawRound } from '../settings.ts';
import { ThreadRound } from '../thread-round.ts';

/** A stall is a fault only beyond any pause that a busy machine may cause. */
const STALL_MS = 30_000;
const START_MS = 120_000;
const QUIET: Disturbances = {
  kills: 0,
  massacres: 0,
  stops: 0,
  strict: false,
  stallMs: STALL_MS,
  startMs: START_MS,
};
const FOLDER = mkdtempSync(join(tmpdir(), 'stepwell-torture-'));

/** Indexes beside RACE, with a seed whose table is small and operations of each worker. */
const OTHERS: [IndexName, seed: number, operations: number][] = [
  ['shard', 109, 1000],
  ['chime', 107, 1300],
  ['hstore', 111, 500],
];
/** In campaigns only: they lock and publish as CHIME and RACE do. */
const MORE: typeof OTHERS = [
  ['sephash', 108, 1000],
  ['hopscotch', 110, 1000],
];

/** What a worker says of a store that breaks its word. */
const SEEN_BY_WORKERS = new RegExp(
  'Violation: (key \\d+ \\(|deleteMany removed|the last walk|counter|token|the presence|' +
    'register \\d+ holds)',
);

interface Plan extends Partial<Disturbances> {
  seed: number;
  operations: number;
  place?: 'shm' | 'file';
  suicideEvery?: number;
  alone?: boolean;
  canary?: Canary;
  index?: IndexName;
}

function settingsOf({ seed, operations, place, suicideEvery, alone, canary, index }: Plan) {
  const name = `torture-${process.pid}-${seed}`;
  return drawRound({
    seed,
    url: place === 'file' ? `file:${join(FOLDER, name)}` : `shm:${name}`,
    oracle: join(sharedMemoryDirectory(), `stepwell-${name}.oracle`),
    processes: 4,
    operations,
    keys: 500,
    suicideEvery,
    alone,
    canary,
    index,
  });
}

async function torture(plan: Plan): Promise<RoundReport> {
  const { kills = 0, massacres = 0, stops = 0 } = plan;
  try {
    return await Round.run(settingsOf(plan), { ...QUIET, kills, massacres, stops });
  } catch (error) {
    const flags = [
      `--seed ${plan.seed} --rounds 1 --operations ${plan.operations} --keys 500`,
      plan.place === 'file' ? ' --place file' : '',
      kills > 0 ? ` --kill --kills ${kills}` : '',
      stops > 0 ? ' --stop' : '',
      plan.alone ? ' --alone' : '',
      plan.suicideEvery ? ` --suicide ${plan.suicideEvery}` : '',
      plan.index ? ` --index ${plan.index}` : '',
    ];
    const again = `node --import tsx lab/torture/run.ts ${flags.join('')}`;
    throw new Error(`${(error as Error).message}\nAgain: ${again}`, { cause: error });
  }
}

describe('torture by processes', { timeout: 300_000 }, () => {
  it('four processes on one small table', async () => {
    const report = await torture({ seed: 101, operations: 1500 });
    assert.ok(report.operations >= 6000);
    assert.ok(report.splits > 0);
    for (const [kind, count] of Object.entries(report.byKind)) assert.ok(count > 0, kind);
  });

  it('kill -9 of random workers on shm:', async () => {
    const report = await torture({ seed: 102, operations: 1000, kills: 4 });
    assert.ok(report.kills > 0);
  });

  it('on file:, with all workers killed at once and others stopped', async () => {
    const report = await torture({
      seed: 103,
      operations: 1000,
      place: 'file',
      kills: 1,
      massacres: 1,
      // Windows cannot stop a process.
      stops: process.platform === 'win32' ? 0 : 2,
    });
    assert.ok(report.kills >= 1);
  });

  it('kill -9 of workers in pid namespaces of their own', { skip: noPidNamespaces() }, async () => {
    const report = await torture({ seed: 112, operations: 1000, kills: 3, alone: true });
    assert.ok(report.kills > 0);
  });

  // TerminateProcess on itself looks there like any other failure: code 1, and no signal.
  const noSignals = process.platform === 'win32' && 'Windows reports no signal';
  it('workers that die between two verbs', { skip: noSignals }, async () => {
    const report = await torture({ seed: 104, operations: 1500, suicideEvery: 3000 });
    assert.ok(report.suicides > 0);
  });

  for (const [index, seed, operations] of [...OTHERS, ...MORE.slice(0, rounds(0, MORE.length))]) {
    it(`kill -9 of random workers: ${index}`, async () => {
      const report = await torture({ seed, operations, kills: 4, index });
      assert.ok(report.kills > 0 && report.byKind.entries > 0);
    });
  }

  // One session sees both, below.
  for (const canary of (['lie', 'lose-one'] as const).slice(0, rounds(1, 2))) {
    it(`reports a worker that breaks its word: ${canary}`, async () => {
      const settings = settingsOf({ seed: 105, operations: 20_000, canary });
      await assert.rejects(Round.run(settings, QUIET), SEEN_BY_WORKERS);
    });
  }

  it('leaves nothing behind', () => rmSync(FOLDER, { recursive: true, force: true }));
});

describe('torture by threads', { timeout: 120_000 }, () => {
  it('worker.terminate() at any moment on memory:', async () => {
    const settings = { ...settingsOf({ seed: 106, operations: 5000 }), url: 'memory:' };
    const { terminated, operations } = await ThreadRound.run(settings, 6);
    assert.ok(terminated > 0);
    assert.ok(operations >= 20_000);
  });
});

describe('canaries in this process', () => {
  for (const canary of ['lie', 'lose-one'] as const) {
    it(`one session sees that ${canary}`, () => {
      const settings = settingsOf({ seed: 107, operations: 0, canary });
      const memory = new SharedArrayBuffer(ExpectedValues.bytes(settings.shape));
      const oracle = new ExpectedValues(memory, settings.shape).format();
      const store = openSync('memory:', { size: settings.poolBytes, index: settings.index });
      try {
        const double = withCanary(store, canary);
        const party = { store: double, oracle, row: 0, random: Prng.fromSeed(1) };
        const session = new Session(party, settings.mix);
        assert.throws(() => {
          for (let i = 0; i < 100_000; i++) session.step();
        }, Violation);
      } finally {
        store.close();
      }
    });
  }
});
