import type { CheckReport } from '../../store/reports.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatCount, formatDuration, formatSize, plural } from '../sizes.ts';
import { sharedUrl } from '../store-options.ts';
import { Progress } from '../terminal/progress.ts';
import { printable, type Style, styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const EXAMPLES = ['check shm:demo', 'check file:/var/tmp/cities.pool --json'];

export const check = defineCommand({
  name: 'check',
  arguments: '<url>',
  summary: 'Walk a pool and list everything that contradicts itself',
  details:
    '  Exits with 1 when there are problems. Best done while no other client writes: what a\n' +
    '  writer has half done looks like a problem until it is finished.',
  options: {
    sweep: {
      about: 'Give back what clients that were killed left, so that the next check is certain',
    },
    json: { about: 'Print the report as JSON' },
  },
  examples: EXAMPLES,
  async run(context, [url], { json, sweep }) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const progress = new Progress(context, 'checking', 'steps');
    const onProgress = (done: number, total: number) => progress.update(done, total);
    const report = await library.check(url, { onProgress, sweep, client: 'stepwell check' });
    progress.clear();
    const style = styleFor(context.stdout.isTTY, context.env);
    const text = json ? JSON.stringify(report, null, 2) : describe(report, progress.seconds, style);
    await context.stdout.line(text);
    return report.problems.length === 0 ? EXIT.ok : EXIT.negative;
  },
});

function describe(report: CheckReport, seconds: number, style: Style): string {
  const { stores, blocks, leaked, unreachable, unfinished, problems } = report;
  const parts = [
    table(
      [
        { head: 'STORE' },
        { head: 'RECORDS', align: 'right' },
        { head: 'SUBTABLES', align: 'right' },
        { head: 'SLOTS', align: 'right' },
        { head: 'SIZE', align: 'right' },
      ],
      stores.map((store) => [
        store.name,
        formatCount(store.records),
        formatCount(store.subtables),
        formatCount(store.slots),
        formatSize(store.bytes),
      ]),
      style,
    ),
    `${formatCount(blocks.reachable)} blocks reachable, ${formatCount(blocks.claimed)} claimed, ` +
      `${formatCount(blocks.free)} free, ${formatCount(leaked)} leaked`,
    ...(unreachable === 0
      ? []
      : [
          `${plural(unreachable, 'record')} that no search finds: lost, or left by a client that ` +
            'was killed and had removed them',
        ]),
    ...stores
      .filter(({ unswept }) => unswept > 0)
      .map(
        ({ name, unswept }) =>
          `${name}: ${plural(unswept, 'client')} died since its last sweep; run check with ` +
          '--sweep while it has no other clients, and later checks tell lost records from theirs',
      ),
    ...unfinished.map(
      ({ index, chunks, bytes }) =>
        `${plural(chunks, 'chunk')} (${formatSize(bytes)}) of a store on ${index}, whose maker ` +
        'died: no damage; the next store that is made takes them up, or a full pool',
    ),
    ...problems.map((problem) => `${style.red('problem:')} ${printable(problem)}`),
    problems.length === 0
      ? style.green(`every invariant holds (${formatDuration(seconds)})`)
      : style.red(`${plural(problems.length, 'problem')} (${formatDuration(seconds)})`),
  ];
  return parts.join('\n');
}
