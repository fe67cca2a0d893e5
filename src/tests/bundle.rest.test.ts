import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { bundled } from '../store/tests/support/bundled.ts';

/** Prints a value out of a pool, or the code and the message of what went wrong. */
const PROGRAM = `
import { openSync, destroySync } from 'stepwell';
const url = process.argv[2];
try {
  const store = openSync(url, { size: 2 ** 22 });
  store.set('k', 'kept');
  console.log(store.get('k'));
  store.close();
  if (url !== 'memory:') destroySync(url);
} catch ({ code, message }) {
  console.log(code, message);
}`;

function run(file: string, url: string): string {
  return execFileSync(process.execPath, [file, url], { encoding: 'utf8' }).trim();
}

for (const format of ['esm', 'cjs'] as const) {
  test(`a bundle of ${format} modules opens pools with koffi beside it`, (t) => {
    const file = bundled(t, PROGRAM, { format });
    assert.equal(run(file, 'memory:'), 'kept');
    assert.equal(run(file, `file:${join(file, '../pool')}`), 'kept');
  });

  test(`a bundle of ${format} modules without koffi says where to install it`, (t) => {
    const file = bundled(t, PROGRAM, { format, koffi: false });
    assert.equal(run(file, 'memory:'), 'kept');
    const said = run(file, `file:${join(file, '../pool')}`);
    assert.match(said, /^SW_UNSUPPORTED .*npm install @koromix\/koffi-\S* beside .*\/app\.[mc]js/);
  });
}
