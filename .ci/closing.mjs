/**
 * The last lines of a test run, as a reporter of node:test: what was skipped and why, what failed,
 * and how many tests there were. With STEPWELL_CLOSING it adds them to that file as well, for a
 * program that has more to do before its end.
 */
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

/** What Node says of tests that --test-name-pattern leaves out. */
const NOT_CHOSEN = 'test name does not match pattern';

export default async function* closing(events) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const skipped = [];
  const failed = [];
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { name, skip, details, file } = data;
    const place = file === undefined ? name : `${relative(process.cwd(), file)}: ${name}`;
    // A suite that is skipped is told of, and counted as one: its tests are never made.
    const isSkipped = skip !== undefined && skip !== false;
    if (skip === NOT_CHOSEN) {
      continue;
    } else if (isSkipped) {
      counts.skipped++;
      skipped.push(`skipped: ${place} (${skip === true || skip === '' ? 'no reason' : skip})`);
    } else if (details?.type === 'suite') {
      continue;
    } else if (type === 'test:pass') {
      counts.passed++;
    } else {
      counts.failed++;
      failed.push(`failed: ${place}`);
    }
  }
  const { passed, failed: broken, skipped: left } = counts;
  const total = `${passed} passed, ${broken} failed, ${left} skipped`;
  const text = [...skipped, ...failed, total, ''].join('\n');
  const path = process.env.STEPWELL_CLOSING;
  if (path) appendFileSync(path, text);
  yield `\n${text}`;
}
