import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runLab } from './test-support/run-lab.ts';

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

  it('round-trips counts 2, 3, 3 and 3', LIMIT, async () => {
    const { rows } = await figures('round-trips.ts', ['--operations', '500', '--single', '100']);
    const fewest = rows.map(({ singles }: { singles: object }) =>
      Math.min(...Object.keys(singles).map(Number)),
    );
    assert.deepEqual(fewest, [2, 3, 3, 3]);
  });

  it('load-100m loads what it says and leaves no pool behind', LIMIT, async () => {
    const pool = join(directory, 'pool');
    const place = ['--url', `file:${pool}`, '--size', String(2 ** 26)];
    const options = ['--records', '3000', '--batch', '100', '--paper', ...place];
    const { outcome } = await figures('load-100m.ts', options);
    assert.equal(outcome.stats.records, 3000);
    assert.equal(outcome.search.found, 100_000);
    assert.ok(!existsSync(pool));
  });

  it('load-factor fills subtables until an insert fails', LIMIT, async () => {
    const { rows } = await figures('load-factor.ts', ['--max-groups', '64', '--seeds', '2']);
    assert.equal(rows.length, 5);
    for (const { loadFactors } of rows) {
      for (const loadFactor of loadFactors) assert.ok(loadFactor > 0.7 && loadFactor <= 1);
    }
  });

  it('simulate runs the experiments that it is told to', LIMIT, async () => {
    const { outcomes } = await figures('simulate.ts', ['latency', '--operations', '200']);
    assert.deepEqual(Object.keys(outcomes), ['latency']);
    const { code, output } = await runLab('simulate.ts', ['latency', 'nothing']);
    assert.equal(code, 2);
    assert.match(output, /no experiment 'nothing'/);
  });

  it('refuses a wrong option with its usage', LIMIT, async () => {
    const { code, output } = await runLab('load-factor.ts', ['--seed', '1']);
    assert.equal(code, 2);
    assert.match(output, /Usage: node --import tsx src\/lab\/load-factor\.ts/);
  });
});
