import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type TortureOptions, tortureJobs } from '../jobs/run.ts';

/** No test of torture shares its pool's name with another one: the seed is in it. */
const SMALL: TortureOptions = {
  jobs: 6000,
  processes: 3,
  every: 400,
  suicide: 0,
  size: '64m',
  seed: 1,
  canary: '',
};

describe('torture of a job queue', { timeout: 300_000 }, () => {
  it('kill -9 of random workers loses no job, and none is acknowledged twice', async () => {
    const report = await tortureJobs({ ...SMALL, seed: 201 });
    assert.deepEqual(report.problems, []);
    assert.ok(report.kills > 0 && report.failed > 0);
    assert.ok(report.done + report.unheard + report.uncertain >= SMALL.jobs);
  });

  // TerminateProcess on itself looks there like any other failure: code 1, and no signal.
  const noSignals = process.platform === 'win32' && 'Windows reports no signal';
  it('workers that die between two verbs', { skip: noSignals }, async () => {
    const report = await tortureJobs({ ...SMALL, jobs: 3000, suicide: 20_000, seed: 202 });
    assert.deepEqual(report.problems, []);
    assert.ok(report.kills > 0);
  });

  const planted = { lose: /^job \d+ is lost$/, again: /^job \d+ was acknowledged twice$/ };
  for (const [canary, problem] of Object.entries(planted)) {
    it(`canary: ${canary}`, async () => {
      const calm = { every: 600_000, jobs: 4000 };
      const seed = canary === 'lose' ? 203 : 204;
      const { problems } = await tortureJobs({ ...SMALL, ...calm, canary, seed });
      assert.ok(
        problems.some((one) => problem.test(one)),
        problems.join('\n'),
      );
    });
  }
});
