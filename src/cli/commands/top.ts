import type { PoolObserver } from '../../store/watching/observer.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT } from '../failures.ts';
import { parseSeconds } from '../sizes.ts';
import { sharedUrl } from '../store-options.ts';
import { Screen } from '../terminal/screen.ts';
import { styleFor } from '../terminal/style.ts';
import { frameOf } from '../top/frame.ts';

const EXAMPLES = [
  'top shm:demo',
  'top shm:demo --once --json | jq .sum',
  'top tcp://127.0.0.1:7471',
];
const INTERVAL_SECONDS = 1;
/** A rate needs two looks, and clients tell once a second. */
const ONCE_SECONDS = 2.2;

export const top = defineCommand({
  name: 'top',
  arguments: '<url>',
  summary: 'Watch a pool: operations a second, latencies, hits, evictions, load, clients, memory',
  details:
    '  q or Ctrl-C ends it. With --once, and where standard output is no terminal, it looks for\n' +
    '  two seconds and prints what it saw; with --json alone, a line of JSON for each look.\n' +
    '  A pool has no server: every client counts what it does and writes that into its row of\n' +
    '  the pool once a second. Records and load that are marked with ~ are estimated from some\n' +
    '  parts of each index.',
  options: {
    interval: {
      value: 'SECONDS',
      read: parseSeconds,
      about: `Seconds from one look to the next (default: ${INTERVAL_SECONDS})`,
    },
    once: { about: 'Print one view and end' },
    json: { about: 'Print JSON' },
  },
  examples: EXAMPLES,
  async run(context, [url], { interval = INTERVAL_SECONDS, once, json }) {
    sharedUrl(url, EXAMPLES[0]);
    const { signal } = context;
    const observe = await context.observe();
    const observer = await observe(url, url, { client: 'stepwell top' });
    try {
      if (json && !once) await printLines(context, observer, signal, interval);
      else if (once || !context.stdout.isTTY) await printOnce(context, observer, signal, json);
      else await show(context, observer, signal, interval);
      return EXIT.ok;
    } finally {
      await observer.close();
    }
  },
});

async function printOnce(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  json: boolean,
): Promise<void> {
  await observer.observe();
  await context.pause(ONCE_SECONDS * 1000, signal);
  const figures = await observer.observe();
  const lines = frameOf(figures, { columns: Number.POSITIVE_INFINITY }, styleFor(false, {}));
  await context.stdout.line(json ? JSON.stringify(figures, null, 2) : lines.join('\n'));
}

async function printLines(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  interval: number,
): Promise<void> {
  await observer.observe();
  while (!signal.aborted) {
    await context.pause(interval * 1000, signal);
    if (!signal.aborted) await context.stdout.line(JSON.stringify(await observer.observe()));
  }
}

/** A look that fails is told in place of the view, and the next one attaches again. */
async function show(
  context: Context,
  observer: PoolObserver,
  signal: AbortSignal,
  interval: number,
): Promise<void> {
  const { stdout, env } = context;
  const style = styleFor(true, env);
  const ended = new AbortController();
  const either = AbortSignal.any([signal, ended.signal]);
  let draw = () => {};
  const onKey = (key: string) => {
    if (key === 'q') ended.abort();
  };
  const screen = new Screen(context, context.exitHost, onKey, () => draw());
  try {
    while (!either.aborted) {
      try {
        const figures = await observer.observe();
        draw = () =>
          screen.draw(frameOf(figures, { columns: stdout.columns, rows: stdout.rows }, style));
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        draw = () => screen.draw([style.red(message.slice(0, stdout.columns)), 'trying again …']);
      }
      draw();
      await context.pause(interval * 1000, either);
    }
  } finally {
    screen.close();
  }
}
