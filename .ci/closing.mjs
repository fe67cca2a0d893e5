/**
 * The last lines of a test run, as a reporter of node:test: what was skipped and why, what failed,
 * which files took longest, and how many tests there were. With STEPWELL_CLOSING it adds them to
 * that file as well, for a program that has more to do before its end.
 */
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

/** What Node says of tests that --test-name-pattern leaves out. */
const NOT_CHOSEN = 'test name does not match pattern';
/** Files that are named when a run is so long that somebody may want to shorten it. */
const LONGEST = 20;
const LONG_RUN_MS = 300_000;

export default async function* closing(events) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const skipped = [];
  const failed = [];
  const milliseconds = new Map();
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { name, skip, details, file, nesting } = data;
    if (nesting === 0 && file !== undefined) {
      milliseconds.set(file, (milliseconds.get(file) ?? 0) + details.duration_ms);
    }
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
  const text = [...skipped, ...failed, ...longest(milliseconds), total, ''].join('\n');
  const path = process.env.STEPWELL_CLOSING;
  if (path) appendFileSync(path, text);
  yield `\n${text}`;
}

/** Seconds of the files whose tests took longest. They run beside each other. */
function longest(milliseconds) {
  const files = [...milliseconds].sort(([, a], [, b]) => b - a);
  if (files.reduce((sum, [, ms]) => sum + ms, 0) < LONG_RUN_MS) return [];
  return files.slice(0, LONGEST).map(([file, ms]) => {
    return `long: ${relative(process.cwd(), file)}: ${Math.round(ms / 1000)} s`;
  });
}
