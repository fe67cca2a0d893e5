import type { CheckReport } from '../../store/reports.ts';
import { formatCount, formatSize } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import { printReport, throwIfInterrupted } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatDuration, parseCount, plural } from '../sizes.ts';
import { Progress } from '../terminal/progress.ts';
import { printable, type Style } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

export const check = defineCommand({
  name: 'check',
  arguments: '<url>',
  summary: 'Walk a pool and list everything that contradicts itself',
  details:
    '  Exits with 1 when there are problems. Best done while no other client writes: what a\n' +
    '  writer has half done looks like a problem until it is finished.',
  options: {
    sweep: {
      about: 'Give back the blocks of all stores that clients left when they were killed',
    },
    json: { about: 'Print the report as JSON' },
  },
  examples: ['check shm:demo', 'check file:/var/tmp/cities.pool --json'],
  async run(context, [url], { json, sweep }) {
    const library = await context.library();
    const progress = new Progress(context, 'checking', 'steps');
    const onProgress = (done: number, total: number) => progress.update(done, total);
    const report = await library.check(url, { onProgress, sweep, client: 'stepwell check' });
    progress.clear();
    const { seconds } = progress;
    await printReport(context, report, json, (_, style) => describe(report, seconds, style));
    return report.problems.length === 0 ? EXIT.ok : EXIT.negative;
  },
});

function describe(report: CheckReport, seconds: number, style: Style): string {
  const { stores, blocks, leftover, unreachable, unfinished, problems } = report;
  const isLeft = leftover.blocks > 0 && stores.some(({ leftover: { swept } }) => !swept);
  const took = ` (${formatDuration(seconds)})`;
  const parts = [
    table(
      'STORE | RECORDS: | SUBTABLES: | SLOTS: | SIZE:',
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
      `${formatCount(blocks.free)} free`,
    ...(unreachable === 0
      ? []
      : [
          `${plural(unreachable, 'record')} that no search finds: lost, or left by a client that ` +
            'was killed and had removed them',
        ]),
    ...stores.filter((store) => store.leftover.blocks > 0).map(describeLeftover),
    ...unfinished.map(
      ({ index, chunks, bytes }) =>
        `${plural(chunks, 'chunk')} (${formatSize(bytes)}) of a store on ${index}, whose maker ` +
        'died: no damage; the next store that is made takes them up, or a full pool',
    ),
    ...problems.map((problem) => `${style.red('problem:')} ${printable(problem)}`),
    problems.length === 0
      ? style.green(
          `every invariant holds${isLeft ? '; clients that died left blocks' : ''}${took}`,
        )
      : style.red(`${plural(problems.length, 'problem')}${took}`),
  ];
  return parts.join('\n');
}

function describeLeftover({ name, unswept, leftover }: CheckReport['stores'][number]): string {
  const { blocks, bytes, atMost, swept } = leftover;
  const what = `${atMost ? 'up to ' : ''}${plural(blocks, 'block')} (${formatSize(bytes)})`;
  const whose = `${name}: ${what} left by ${plural(unswept, 'client')} that died`;
  if (swept) return `${whose}: brought back`;
  return `${whose}: no damage; the next full pool brings them back, or check with --sweep`;
}

const ROUNDS = 300_000;

export const selftest = defineCommand({
  name: 'selftest',
  arguments: '[folder]',
  summary: 'Try whether this processor keeps the order that pools rely on',
  details:
    '  Two threads run litmus tests against each other. Each has a control that must show the\n' +
    '  forbidden outcome; where it does not, the verdict is inconclusive: run it again on an\n' +
    '  idle machine. Without a folder it tests memory that threads share, with one (/dev/shm)\n' +
    '  files that processes map. Support of arm64 is experimental: please run it there.',
  options: {
    rounds: { value: 'N', read: parseCount(1000, 1e8), about: `Of each test (default: ${ROUNDS})` },
    json: { about: 'Print one JSON object a line' },
  },
  examples: ['selftest', 'selftest /dev/shm'],
  async run(context, [folder], { rounds = ROUNDS, json }) {
    const library = await import('../../fabrics/shared/selftest/selftest.ts');
    let violated = false;
    for await (const result of library.selftest({ folder, rounds })) {
      throwIfInterrupted(context.signal, 'interrupted');
      const { test, verdict, violations, control } = result;
      const text = `${verdict.padEnd(13)} ${test} (seen ${violations}, control ${control})`;
      await context.stdout.line(json ? JSON.stringify(result) : text);
      violated ||= verdict === 'violated';
    }
    return violated ? EXIT.negative : EXIT.ok;
  },
});
