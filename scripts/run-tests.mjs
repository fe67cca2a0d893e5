/**
 * Runs test files in the order in which they are named: `node scripts/run-tests.mjs SETTINGS`, the
 * options of `run` in JSON. `node --test` sorts them, so that a long one may begin last, and runs
 * alone.
 */
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import closing from '../.ci/closing.mjs';

const events = run(JSON.parse(process.argv[2]));
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
const reporters = [new spec(), closing];
process.stdout.setMaxListeners(0);
for (const reporter of reporters) events.compose(reporter).pipe(process.stdout, { end: false });
