/** What a test run says at its end: nothing is left out in silence. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isMissing } from '../store/tests/support/missing-tools.ts';
import { temporaryDirectory } from '../store/tests/support/pools.ts';

const REPORTER = fileURLToPath(new URL('../../.ci/closing.mjs', import.meta.url));

const RUNNER = fileURLToPath(new URL('../../scripts/run-tests.mjs', import.meta.url));

const TESTS = `
import { describe, it, test } from 'node:test';
test('fine', () => {});
test('left out', { skip: 'no tool' }, () => {});
test('given up', (t) => t.skip('no right'));
test('bare', { skip: true }, () => {});
describe('a suite left out', { skip: 'no server' }, () => {
  it('is never made', () => {});
});
describe('a suite', () => {
  it('works', () => {});
  it('breaks', () => { throw new Error('no'); });
});
`;

test('the closing lines name every test that was skipped, with its reason', (t) => {
  const folder = temporaryDirectory(t);
  const [file, closing] = [join(folder, 'some.test.mjs'), join(folder, 'closing')];
  writeFileSync(file, TESTS);
  // Those of a run before it.
  writeFileSync(closing, '1 passed\n');
  const env = { ...alone(), STEPWELL_CLOSING: closing };
  const words = ['--test', `--test-reporter=${REPORTER}`, file];
  const { stdout, status } = spawnSync(process.execPath, words, { env, cwd: folder });
  assert.equal(status, 1);
  const lines = [
    'skipped: some.test.mjs: left out (no tool)',
    'skipped: some.test.mjs: given up (no right)',
    'skipped: some.test.mjs: bare (no reason)',
    'skipped: some.test.mjs: a suite left out (no server)',
    'failed: some.test.mjs: breaks',
    '2 passed, 1 failed, 4 skipped',
  ];
  assert.equal(stdout.toString(), `\n${lines.join('\n')}\n`);
  assert.equal(readFileSync(closing, 'utf8'), `1 passed\n${lines.join('\n')}\n`);
});

/** The environment of a run of its own: its lines are not those of the run around this test. */
function alone(): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _, STEPWELL_CLOSING: __, ...env } = process.env;
  return env;
}

function settings(...files: string[]): string[] {
  return [RUNNER, JSON.stringify({ files, concurrency: 8, timeout: 60_000 })];
}

test('a run of no file, and one with a file that crashes, fails and says so', (t) => {
  const folder = temporaryDirectory(t);
  const [crashes, refused] = [join(folder, 'crashes.test.mjs'), join(folder, 'refused.test.mjs')];
  writeFileSync(crashes, "process.kill(process.pid, 'SIGSEGV');");
  writeFileSync(refused, 'import x from ;');
  const env = alone();
  const found = spawnSync(process.execPath, settings(crashes, refused), { env, cwd: folder });
  assert.equal(found.status, 1);
  const text = found.stdout.toString();
  assert.match(text, /^failed: crashes\.test\.mjs/m);
  assert.match(text, /^failed: refused\.test\.mjs/m);
  const none = spawnSync(process.execPath, settings(), { env, cwd: folder });
  assert.equal(none.status, 1);
  assert.match(none.stderr.toString(), /there is no file to run/);
});

test('a run that is stopped ends its files, and says which', { timeout: 60_000 }, async (t) => {
  const folder = temporaryDirectory(t);
  const file = join(folder, 'long.test.mjs');
  writeFileSync(file, "console.log('process ' + process.pid); setInterval(() => {}, 1000);");
  const env = alone();
  const runner = spawn(process.execPath, settings(file), { env, cwd: folder });
  t.after(() => runner.kill('SIGKILL'));
  let text = '';
  const closed = once(runner, 'close');
  let began = 0;
  for await (const chunk of runner.stdout) {
    text += chunk;
    const [, pid] = /process (\d+)/.exec(text) ?? [];
    if (began === 0 && pid !== undefined) {
      began = Number(pid);
      runner.kill('SIGTERM');
    }
  }
  assert.deepEqual(await closed, [1, null]);
  assert.match(text, /^failed: long\.test\.mjs/m);
  assert.throws(() => process.kill(began, 0), { code: 'ESRCH' });
});

test('a tool that is missing skips a test, but not where it must be installed', (t) => {
  const { CI } = process.env;
  t.after(() => {
    if (CI === undefined) delete process.env.CI;
    else process.env.CI = CI;
  });
  delete process.env.CI;
  assert.equal(isMissing('no-such-tool'), 'no-such-tool is not installed');
  assert.equal(isMissing('node'), false);
  process.env.CI = 'true';
  assert.equal(isMissing('no-such-tool'), false);
});
