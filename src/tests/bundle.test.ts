import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { buildSync } from 'esbuild';
import type { Scope } from '../store/tests/support/pools.ts';

const SOURCE = resolve(import.meta.dirname, '..');
const KOFFI = resolve(SOURCE, '../node_modules/koffi');
/** Prints a value out of a pool, or the code and the message of what went wrong. */
const PROGRAM = `
import { openSync, destroyPool } from 'stepwell';
const url = process.argv[2];
try {
  const store = openSync(url, { size: 2 ** 22 });
  store.put('k', 'kept');
  console.log(store.get('k'));
  store.close();
  if (url !== 'memory:') destroyPool(url);
} catch ({ code, message }) {
  console.log(code, message);
}`;

/** Bundles the program as an application would, into a folder of its own, and returns the file. */
function bundle(scope: Scope, format: 'esm' | 'cjs', koffi: boolean): string {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-bundle-'));
  scope.after(() => rmSync(folder, { recursive: true }));
  const outfile = join(folder, format === 'esm' ? 'app.mjs' : 'app.cjs');
  const { warnings } = buildSync({
    stdin: { contents: PROGRAM, resolveDir: SOURCE },
    alias: { stepwell: join(SOURCE, 'index.ts') },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format,
    outfile,
    logLevel: 'silent',
  });
  // The bundle says itself where it is, when it has no import.meta.
  assert.deepEqual(
    warnings.filter(({ id }) => id !== 'empty-import-meta'),
    [],
  );
  if (koffi) {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(KOFFI, join(folder, 'node_modules/koffi'));
  }
  return outfile;
}

function run(file: string, url: string): string {
  return execFileSync(process.execPath, [file, url], { encoding: 'utf8' }).trim();
}

for (const format of ['esm', 'cjs'] as const) {
  test(`a bundle of ${format} modules opens pools with koffi beside it`, (t) => {
    const file = bundle(t, format, true);
    assert.equal(run(file, 'memory:'), 'kept');
    assert.equal(run(file, `file:${join(file, '../pool')}`), 'kept');
  });

  test(`a bundle of ${format} modules without koffi says where to install it`, (t) => {
    const file = bundle(t, format, false);
    assert.equal(run(file, 'memory:'), 'kept');
    const said = run(file, `file:${join(file, '../pool')}`);
    assert.match(said, /^SW_UNSUPPORTED .*npm install koffi beside .*\/app\.[mc]js/);
  });
}
