import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { RUNTIME } from '../../../store/tests/support/runtime.ts';

const SUITE = new URL('./support/run-suite.ts', import.meta.url);

/** Runs abstract-level's suite in a process of its own; its output in TAP. */
async function runSuite(place: string): Promise<{ code: number; output: string }> {
  const child = fork(SUITE, [place], { execArgv: [...RUNTIME], silent: true });
  const output: Buffer[] = [];
  child.stdout?.on('data', (chunk) => output.push(chunk));
  const [code] = await once(child, 'close');
  return { code, output: Buffer.concat(output).toString() };
}

function assertPassed({ code, output }: { code: number; output: string }): void {
  const failures = output.split('\n').filter((line) => line.startsWith('not ok'));
  assert.deepEqual(failures, []);
  assert.match(output, /^# ok$/m);
  assert.equal(code, 0);
  const [, passed] = /^# pass +(\d+)$/m.exec(output) ?? [];
  assert.ok(Number(passed) > 4500, `${passed} assertions`);
}

test("abstract-level's own suite on memory:", async () => {
  assertPassed(await runSuite('memory:'));
});
