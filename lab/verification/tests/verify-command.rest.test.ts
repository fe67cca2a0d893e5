import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Setting, stepwell } from '../../../src/cli/tests/support/terminal.ts';
import { VERIFICATION } from '../cli/program.ts';

const lab = (words: string[], setting?: Setting) => stepwell(words, setting, VERIFICATION);

/** Its clock is the steps that it is asked for, so that nothing depends on the machine. */
function clock(): () => number {
  let now = 0;
  return () => ++now;
}

describe('verify', () => {
  it('covers a scope and says so', async () => {
    const now = clock();
    const { code, out } = await lab(['verify', 'race', '--scope', 'put-search'], { now });
    assert.equal(code, 0);
    assert.match(out, /put-search +32 +17 +0 +all/);
    assert.match(out, /nothing failed/);
  });

  it('runs random schedules of the seeds that it is given', async () => {
    const words = ['verify', 'race', '--seed', '1..20', '--json'];
    const { code, out } = await lab(words, { now: clock() });
    assert.equal(code, 0);
    const { random, scopes } = JSON.parse(out);
    assert.equal(random.schedules, 60);
    assert.ok(random.operations > 500);
    assert.deepEqual(scopes, []);
  });

  it('finds a canary, and the command that it prints finds it again', async () => {
    const words = ['verify', 'race', '--scope', 'put-put-vacate', '--canary', 'published insert'];
    const { code, out } = await lab(words, { now: clock() });
    assert.equal(code, 1);
    assert.match(out, /linearizability: the history of \w+ cannot be put in order/);
    assert.match(out, /c0 {3}put/);
    const again = /again: stepwell-lab (.*)/.exec(out)?.[1] ?? '';
    const repeated = await lab(
      again.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", '')) ?? [],
      { now: clock() },
    );
    assert.equal(repeated.out, out);
  });

  it('shrinks the failure of a seed to a command that repeats it', async () => {
    const words = ['verify', 'race', '--seed', '1..2000', '--canary', 're-used'];
    const { code, out } = await lab(words, { now: clock() });
    assert.equal(code, 1);
    const again = /again: stepwell-lab (.*)/.exec(out)?.[1] ?? '';
    assert.match(again, /--seed \d+ --policy \w+( --schedule \d+)? --keep [\d,]+/);
    const repeated = await lab(
      again.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", '')) ?? [],
      { now: clock() },
    );
    assert.equal(repeated.code, 1);
    assert.equal(repeated.out.split('\n')[2], out.split('\n')[2]);
  });

  it('ends with 0 only when a planted canary was not asked for', async () => {
    const words = ['verify', 'race', '--scope', 'put-search', '--canary', 'published insert'];
    const { code, out } = await lab(words, { now: clock() });
    assert.equal(code, 1);
    assert.match(out, /the canary was not found/);
  });

  it('lists what there is', async () => {
    const { code, out } = await lab(['verify', 'race', '--list']);
    assert.equal(code, 0);
    for (const part of ['put-put', 'stall', 'published insert'])
      assert.ok(out.includes(part), part);
  });

  it('refuses what it does not know', async () => {
    for (const words of [
      ['rice'],
      ['race', '--scope', 'nope'],
      ['race', '--canary', 'nope'],
      ['race', '--policy', 'nope'],
      ['race', '--seed', '5..1'],
      ['race', '--seed', 'x'],
      ['race', '--keep', '1;2'],
      ['race', '--minutes', '0'],
      ['race', '--scope', 'all', '--seed', '1'],
    ]) {
      const { code, err } = await lab(['verify', ...words]);
      assert.equal(code, 2, words.join(' '));
      assert.notEqual(err, '');
    }
  });
});
