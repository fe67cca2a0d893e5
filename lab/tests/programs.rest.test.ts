import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isMissing } from '../../src/store/tests/support/missing-tools.ts';
import { runLab } from './support/run-lab.ts';

const LIMIT = { timeout: 120_000 };

describe('labs', () => {
  let directory: string;
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'stepwell-lab-test-'));
  });
  after(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  /** Runs a lab that must succeed, and returns its JSON. */
  const figures = async (program: string, options: readonly string[]) => {
    const json = join(directory, `${program}.json`);
    const { code, output } = await runLab(program, [...options, '--json', json]);
    assert.equal(code, 0, output);
    return JSON.parse(readFileSync(json, 'utf8'));
  };

  it('soak ends with a clean check, whatever was killed', LIMIT, async () => {
    const { code, output } = await runLab('soak', ['--seconds', '3']);
    assert.equal(code, 0, output);
    assert.match(output, /gateways killed +1\n/);
    assert.match(output, /operations of workers +[1-9]/);
    assert.match(output, /commands of Redis clients +[1-9]/);
    assert.match(output, /check: clean/);
  });

  it('round-trips counts what the papers say, for every index', LIMIT, async () => {
    const { rows } = await figures('round-trips', ['--operations', '1000']);
    const mostly = (index: string) =>
      rows
        .filter((row: { index: string }) => row.index === index)
        .map(({ counts }: { counts: Record<string, number> }) =>
          Number(Object.entries(counts).sort(([, a], [, b]) => b - a)[0][0]),
        );
    // put, insert, update, search, delete
    assert.deepEqual(mostly('race'), [3, 3, 3, 2, 3]);
    assert.deepEqual(mostly('sephash'), [2, 2, 3, 2, 3]);
    const grown = rows.find((row: { index: string; call: string }) => {
      return row.index === 'sephash' && row.call === 'insert';
    });
    assert.ok(grown.resizing > 0 && grown.all[0] > grown.quiet[0], 'merges are told apart');
  });

  it('growing-round-trips counts SHARD’s 1 + 1, 2, 2 + 1 and 2 + 1', LIMIT, async () => {
    const options = ['--records', '2000', '--indexes', 'race,shard'];
    const { rows } = await figures('growing-round-trips', options);
    const quiet = rows.slice(4).map((row: { quiet: number[] }) => Math.floor(row.quiet[0]));
    assert.deepEqual(quiet, [2, 2, 3, 3]);
  });

  it('space finds nearly all keys in level 1 of SHARD', LIMIT, async () => {
    const few = ['--records', '10000', '--looks', '4', '--indexes', 'shard'];
    const { runs } = await figures('space', few);
    const { looks } = runs.find(({ name }: { name: string }) => name === 'shard');
    assert.equal(looks.length, 4);
    for (const { records, levels } of looks) assert.ok(levels[0] / records > 0.95);
  });

  it(
    'chime counts 1, 2, 2, 2 and 1 with h + 1 more when nothing is remembered',
    LIMIT,
    async () => {
      const { trips, load, hotspots } = await figures('chime-claims', ['--records', '2000']);
      assert.deepEqual(
        trips.slice(0, 5).map((row: { cached: { fewest: number } }) => row.cached.fewest),
        [1, 2, 2, 2, 1],
      );
      for (const { height, cached, uncached } of trips) {
        assert.equal(uncached.fewest, cached.fewest + height + 1);
      }
      for (const { atSplit, fresh } of load) assert.ok(atSplit > 0.2 && fresh > 0.2);
      for (const { known, right } of hotspots) assert.ok(known > 0.2 && right === 1);
    },
  );

  it('stopped-holder finds the writer that waits for a stopped one', LIMIT, async () => {
    const few = ['--only', 'insertion', '--verbs', '2', '--probe', 'set of a neighbour'];
    const { rows } = await figures('stopped-holder', [...few, '--milliseconds', '1000']);
    assert.equal(rows.length, 2);
    // Less than it was stopped: what the others open they open meanwhile.
    assert.ok(rows[1].ms[0] > 200, 'the lock is held');
  });

  it('load-100m loads what it says and leaves no pool behind', LIMIT, async () => {
    const pool = join(directory, 'pool');
    const place = ['--url', `file:${pool}`, '--size', String(2 ** 26)];
    const options = ['--records', '3000', '--batch', '100', '--paper', ...place];
    const { outcome } = await figures('load-100m', options);
    assert.equal(outcome.stats.records, 3000);
    assert.equal(outcome.search.found, 100_000);
    assert.ok(!existsSync(pool));
  });

  it('load-factor fills subtables until an insert fails', LIMIT, async () => {
    const { rows } = await figures('load-factor', ['--max-groups', '64', '--seeds', '2']);
    assert.equal(rows.length, 5);
    for (const { loadFactors } of rows) {
      for (const loadFactor of loadFactors) assert.ok(loadFactor > 0.7 && loadFactor <= 1);
    }
  });

  it('simulate runs the experiments that it is told to', LIMIT, async () => {
    const { outcomes } = await figures('simulate', ['latency', '--operations', '200']);
    assert.deepEqual(Object.keys(outcomes), ['latency']);
    const { code, output } = await runLab('simulate', ['latency', 'nothing']);
    assert.equal(code, 2);
    assert.match(output, /no experiment 'nothing'/);
  });

  const apps = { ...LIMIT, skip: isMissing('redis-server') };
  it('bench-apps measures each peer, and loads once for two workers', apps, async () => {
    const few = ['--operations', '20', '--keys', '10', '--rounds', '1'];
    const { runs, flights } = await figures('bench-apps', few);
    assert.equal(runs.length, 16);
    for (const { nanoseconds } of runs) assert.ok(nanoseconds > 0);
    const loads = flights.map(({ peer, loads }: { peer: string; loads: number }) => [peer, loads]);
    assert.equal(Object.fromEntries(loads).stepwell, 10);
    assert.equal(Object.fromEntries(loads)['lru-cache'], 20);
  });

  it('bench-jobs adds and works off the jobs of each peer', apps, async () => {
    const few = ['--jobs', '100', '--samples', '5', '--rounds', '1'];
    const { runs, latencies } = await figures('bench-jobs', few);
    assert.equal(runs.length, 8);
    for (const { jobsPerSecond } of runs) assert.ok(jobsPerSecond > 0);
    for (const { nanoseconds } of latencies) assert.equal(nanoseconds.length, 5);
  });

  it(
    'near-reads times peers while keys change, and no read of a store is stale',
    LIMIT,
    async () => {
      const few = ['--keys', '300', '--reads', '2000', '--rounds', '1', '--changes', '0,100'];
      const peers = ['--values', 'json', '--peers', 'lru-cache,stepwell,stepwell near'];
      const { runs, staleness } = await figures('near-reads', [...few, ...peers]);
      for (const { nanoseconds } of runs) assert.ok(nanoseconds > 0);
      const cold = 4 + 4 + 3;
      assert.equal(runs.length, 2 * 4 * 3 + cold, 'reads of each peer; cold and bounded ones');
      assert.deepEqual(
        staleness.map(({ peer, stale }: { peer: string; stale: number }) => [peer, stale]),
        [
          ['stepwell', 0],
          ['stepwell near', 0],
        ],
      );
    },
  );

  it('near-network counts one round trip for a near read, without the value', LIMIT, async () => {
    const few = ['--keys', '20', '--rounds', '1', '--nodes', '1', '--fabrics', 'tcp'];
    const { code, output } = await runLab('near-network', [...few, '--bytes', '4096']);
    assert.equal(code, 0, output);
    assert.match(output, /without near cache +\d+ +2\.\d\d +4\d{3}\n/);
    assert.match(output, /near, epoch as before +\d+ +1\.\d\d +\d{1,2}\n/);
    assert.match(output, /near, epoch changed +\d+ +1\.\d\d +\d{2}\n/);
  });

  it('refuses a wrong option with its usage', LIMIT, async () => {
    const { code, output } = await runLab('load-factor', ['--seed', '1']);
    assert.equal(code, 2);
    assert.match(output, /Usage: stepwell-lab load-factor/);
  });
});
