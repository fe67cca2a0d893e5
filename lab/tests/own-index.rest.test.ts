/** An index from outside `src/`, built in by `--with FILE` and run as users run it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { openSync } from '../../src/store/open.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FILE = 'examples/own-index/linear.ts';

interface Outcome {
  code: number;
  out: string;
}

/** What `npm run lab` and `npm run cli` run. */
function run(program: string, ...words: string[]): Promise<Outcome> {
  const tsx = ['--import', import.meta.resolve('tsx'), 'scripts/run.ts'];
  return new Promise((end) => {
    execFile(process.execPath, [...tsx, program, ...words], { cwd: ROOT }, (error, out, err) => {
      end({ code: Number(error?.code ?? 0), out: `${out}${err}` });
    });
  });
}

describe('--with FILE', { timeout: 600_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-own-index-'));
  after(() => rmSync(folder, { recursive: true }));
  const url = `file:${join(folder, 'pool')}`;
  const cli = (...words: string[]) => run('src/cli/main.ts', ...words, '--with', FILE);
  const verify = (...words: string[]) =>
    run('lab/main.ts', 'verify', 'linear', ...words, `--with=${FILE}`);

  it('verifies the index, and finds its planted bug', async () => {
    const fine = await verify('--scope', 'put-search,put-remove');
    assert.equal(fine.code, 0, fine.out);
    assert.match(fine.out, /put-remove .* all\n/);
    const canary = await verify('--scope', 'put-put-vacate', '--canary', 'linear: two insertions');
    assert.equal(canary.code, 1, canary.out);
    assert.match(canary.out, /its key has another slot/);
  });

  it('makes, uses and checks a store of the index', async () => {
    const made = await cli('create', url, '--size', '16m', '--store', 's', '--index', 'linear');
    assert.equal(made.code, 0, made.out);
    assert.equal((await cli('set', url, 'k', 'v', '--store', 's')).code, 0);
    assert.deepEqual(await cli('get', url, 'k', '--store', 's'), { code: 0, out: 'v' });
    const report = await cli('inspect', url);
    assert.match(report.out, /\bs +linear\b/);
    assert.equal((await cli('check', url)).code, 0);
  });

  it('leaves other programs without it, which say so', () => {
    const unknown = { code: 'SW_UNSUPPORTED', message: /store s has the index linear, which this/ };
    assert.throws(() => openSync(url, { store: 's' }), unknown);
  });

  it('refuses what is no file of the clone', async () => {
    const outside = await run('lab/main.ts', 'verify', '--with', join(folder, 'index.ts'));
    assert.equal(outside.code, 2);
    assert.match(outside.out, /--with .*index.ts: it names a TypeScript file of this clone/);
  });
});
