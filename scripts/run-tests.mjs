/**
 * Runs test files in the given order: `node scripts/run-tests.mjs SETTINGS`, where SETTINGS are the
 * options of `run` in JSON. `node --test` sorts the files, so a long one may begin last and run
 * alone at the end.
 */
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import closing from '../.ci/closing.mjs';

const settings = JSON.parse(process.argv[2]);
if (settings.files.length === 0) throw new Error('there is no file to run');
// Without it, a signal would end this process alone and leave the files running.
const stopped = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    process.exitCode = 1;
    stopped.abort();
  });
}
const events = run({ ...settings, signal: stopped.signal });
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
const reporters = [new spec(), closing];
process.stdout.setMaxListeners(0);
for (const reporter of reporters) events.compose(reporter).pipe(process.stdout, { end: false });
