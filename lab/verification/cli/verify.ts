import { defineCommand } from '../../../src/cli/command.ts';
import { EXIT, UsageError } from '../../../src/cli/failures.ts';
import { formatDuration, parseCount, plural } from '../../../src/cli/sizes.ts';
import { type Style, styleFor } from '../../../src/cli/terminal/style.ts';
import { table } from '../../../src/cli/terminal/table.ts';
import { formatCount } from '../../../src/store/watching/units.ts';
import type { Subject } from '../index.ts';
import { type Plan, planOf, type Result, search, type Verification } from './search.ts';

export const verify = defineCommand({
  name: 'verify',
  arguments: '[index]',
  summary: 'Look for schedules and crashes that break an index',
  details:
    "  Runs an index's operations one verb at a time, in private memory: first every\n" +
    '  schedule and every client crash of small scopes, then random ones of larger\n' +
    '  programs until the time is up. Checks that the history is linearizable, the\n' +
    '  structure intact, no freed block in use, and that every operation finishes.\n' +
    '  Exits with 1 on a failure, and prints a short history and how to repeat it.',
  options: {
    minutes: { value: 'M', read: parseMinutes, about: 'Minutes to run in all (default: 1)' },
    scope: { value: 'NAMES', about: 'Only these scopes: quick, all, or comma-separated names' },
    seed: { value: 'A[..B]', read: parseSeeds, about: 'Only random schedules, with these seeds' },
    policy: { value: 'NAME', about: 'Only this way to choose who runs next (default: all)' },
    schedule: { value: 'N', read: parseCount(0), about: "Run this schedule of a seed's program" },
    keep: { value: 'IDS', read: parseIds, about: "Keep only these calls of a seed's program" },
    'crash-free': { about: 'Let no client crash' },
    canary: { value: 'NAME', about: 'Plant a known bug, which must be found' },
    list: { about: 'Print the indexes, or the scopes, policies and canaries of one' },
    json: { about: 'Print the result as JSON' },
  },
  examples: [
    'verify race',
    'verify race --scope all --minutes 30',
    'verify race --seed 1..100000 --minutes 10',
    'verify race --scope quick --canary published',
  ],
  async run(context, [index], options) {
    const verification = await import('../index.ts');
    const names = verification.SUBJECTS.map(({ kind }) => kind.manifest.name);
    if (index === undefined && options.list) {
      await context.stdout.line(names.join('\n'));
      return EXIT.ok;
    }
    const subject = verification.SUBJECTS[names.indexOf(index ?? '')];
    if (subject === undefined) {
      throw new UsageError(`name an index to verify: ${names.join(', ')}`);
    }
    if (options.list) {
      await context.stdout.line(listing(verification, subject));
      return EXIT.ok;
    }
    const plan = planOf(verification, subject, options, context.now());
    const result = await search(context, verification, plan);
    const style = styleFor(context.stdout.isTTY, context.env);
    await context.stdout.line(
      options.json ? JSON.stringify(result, null, 2) : describe(result, plan, style),
    );
    // With a canary, the exit code is 1 either way: found, or missed by the checkers.
    const fine = result.failure === undefined && plan.canary === undefined;
    return fine ? EXIT.ok : EXIT.negative;
  },
});

function describe({ scopes, random, seconds, failure }: Result, plan: Plan, style: Style): string {
  const parts: string[] = [];
  if (scopes.length > 0) parts.push(scopeTable(scopes, style));
  if (random) {
    const { schedules, operations, crashes, splits, seed } = random;
    parts.push(
      `random: ${plural(schedules, 'schedule')} up to seed ${seed}, ` +
        `${plural(operations, 'operation')}, ${plural(splits, 'split')}, ` +
        `${formatCount(crashes)} crashes`,
    );
  }
  if (failure) parts.push(style.red('failed: ') + failure.text, `again: ${failure.command}`);
  else if (plan.canary) parts.push(style.red(`the canary was not found: ${plan.canary.name}`));
  else parts.push(style.green(`nothing failed (${formatDuration(seconds)})`));
  return parts.join('\n');
}

function scopeTable(scopes: Result['scopes'], style: Style): string {
  return table(
    'SCOPE | SCHEDULES: | WITH A CRASH: | GIVEN UP: | COVERED',
    scopes.map(({ name, schedules, crashed, cut, exhausted }) => [
      name,
      formatCount(schedules),
      formatCount(crashed),
      formatCount(cut),
      exhausted ? (cut === 0 ? 'all' : 'all within the bound') : 'a part',
    ]),
    style,
  );
}

function listing(
  { scopes, QUICK_SCOPES, POLICIES, CANARIES, isIn }: Verification,
  subject: Subject,
): string {
  const quick = (name: string) => (QUICK_SCOPES.includes(name) ? ' (quick)' : '');
  return [
    'scopes:',
    ...scopes(subject).map(({ name }) => `  ${name}${quick(name)}`),
    'policies:',
    ...POLICIES.map((name) => `  ${name}`),
    'canaries:',
    ...CANARIES.filter((canary) => isIn(canary, subject)).map(({ name }) => `  ${name}`),
  ].join('\n');
}

function parseMinutes(text: string): number {
  const minutes = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (minutes > 0 && minutes <= 10_080) return minutes;
  throw new UsageError(`'${text}' is not a number of minutes`);
}

function parseSeeds(text: string): { first: number; last: number } {
  const match = /^(\d{1,15})(?:\.\.(\d{1,15}))?$/.exec(text);
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? first);
  if (match && first <= last) return { first, last };
  throw new UsageError(`'${text}' is not a seed or a range of seeds as in 1..1000`);
}

function parseIds(text: string): ReadonlySet<number> {
  if (/^\d+(,\d+)*$/.test(text)) return new Set(text.split(',').map(Number));
  throw new UsageError(`'${text}' is not a list of calls as in 1,5,7`);
}
