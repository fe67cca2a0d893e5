import type * as verificationModule from '../../verification/index.ts';
import { defineCommand } from '../command.ts';
import { breathe, type Context, throwIfInterrupted } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { Progress } from '../progress.ts';
import { formatCount, formatDuration, parseCount, plural } from '../sizes.ts';
import { type Style, styleFor } from '../style.ts';
import { table } from '../table.ts';

type Verification = typeof verificationModule;
type Coverage = verificationModule.Coverage;
type RandomCoverage = verificationModule.RandomCoverage;
type Scope = verificationModule.Scope;

const INDEXES = ['race'];
const SHRINK_MS = 20_000;
const BREATH_MS = 50;

export const verify = defineCommand({
  name: 'verify',
  arguments: '<index>',
  summary: 'Look for schedules and crashes under which an index goes wrong',
  details:
    `  Indexes: ${INDEXES.join(', ')}. Runs the index's own operations a verb at a time in memory of its\n` +
    '  own: first every schedule, and every crash of a client, of small scopes; then random ones\n' +
    '  of larger programs until the time is over. Checks that the history is linearizable, the\n' +
    '  structure whole, no freed block in use, and that everybody gets to an end. Exits with 1\n' +
    '  when something fails, after a history as short as could be found and how to repeat it.',
  options: {
    minutes: { value: 'M', read: parseMinutes, about: 'Time for all of it (default: 1)' },
    scope: { value: 'NAMES', about: 'Only these scopes: quick, all, or names with commas' },
    seed: { value: 'A[..B]', read: parseSeeds, about: 'Only random schedules, of these seeds' },
    policy: { value: 'NAME', about: 'One way to choose who goes on (default: all in turn)' },
    schedule: { value: 'N', read: parseCount(0), about: "Another schedule of a seed's program" },
    keep: { value: 'IDS', read: parseIds, about: "Only these calls of a seed's program" },
    'crash-free': { about: 'Let nobody die' },
    canary: { value: 'NAME', about: 'Plant a known bug, which must be found' },
    list: { about: 'Print the scopes, policies and canaries' },
    json: { about: 'Print the result as JSON' },
  },
  examples: [
    'verify race',
    'verify race --scope all --minutes 30',
    'verify race --seed 1..100000 --minutes 10',
    'verify race --scope quick --canary "published insert"',
  ],
  async run(context, [index], options) {
    if (!INDEXES.includes(index)) {
      throw new UsageError(`no index is called '${index}'; there is ${INDEXES.join(', ')}`);
    }
    const verification = await import('../../verification/index.ts');
    if (options.list) {
      await context.stdout.line(listing(verification));
      return EXIT.ok;
    }
    const plan = planOf(verification, options, context.now());
    const result = await search(context, verification, plan);
    const style = styleFor(context.stdout.isTTY, context.env);
    await context.stdout.line(
      options.json ? JSON.stringify(result, null, 2) : describe(result, plan, style),
    );
    return result.failure === undefined ? EXIT.ok : EXIT.negative;
  },
});

interface Wishes {
  minutes?: number;
  scope?: string;
  seed?: { first: number; last: number };
  policy?: string;
  schedule?: number;
  keep?: ReadonlySet<number>;
  'crash-free': boolean;
  canary?: string;
}

interface Plan {
  scopes: Scope[];
  seeds: verificationModule.RandomSearch | undefined;
  crashes: boolean;
  canary: verificationModule.Canary | undefined;
  begin: number;
  end: number;
}

interface Result {
  scopes: ({ name: string } & Coverage)[];
  random: RandomCoverage | undefined;
  seconds: number;
  failure: { text: string; command: string } | undefined;
}

function planOf(verification: Verification, wishes: Wishes, begin: number): Plan {
  const replays = wishes.keep !== undefined || wishes.schedule !== undefined;
  const random = wishes.seed !== undefined || wishes.policy !== undefined || replays;
  if (random && wishes.scope !== undefined) {
    throw new UsageError('--scope is exhaustive: --seed, --policy, --schedule and --keep are not');
  }
  const canary = wishes.canary === undefined ? undefined : canaryOf(verification, wishes.canary);
  const crashes = !wishes['crash-free'];
  const { first, last } = wishes.seed ?? { first: 1, last: Number.MAX_SAFE_INTEGER };
  const policies =
    wishes.policy === undefined ? undefined : [policyOf(verification, wishes.policy)];
  const options = { crashes, canary, schedule: wishes.schedule, keep: wishes.keep };
  return {
    scopes: random ? [] : scopesOf(verification, wishes.scope ?? 'quick'),
    seeds: wishes.scope === undefined ? { first, last, policies, options } : undefined,
    crashes,
    canary,
    begin,
    end: begin + (wishes.minutes ?? 1) * 60_000,
  };
}

function scopesOf({ scopes, QUICK_SCOPES }: Verification, wish: string): Scope[] {
  const all = scopes();
  if (wish === 'all') return all;
  const names = wish === 'quick' ? QUICK_SCOPES : wish.split(',');
  return names.map((name) => {
    const found = all.find((scope) => scope.name === name);
    if (found) return found;
    throw new UsageError(`no scope is called '${name}'; see stepwell verify race --list`);
  });
}

function canaryOf({ CANARIES }: Verification, wish: string): verificationModule.Canary {
  const found = CANARIES.find(({ name }) => name.includes(wish));
  if (found) return found;
  throw new UsageError(`no canary is called '${wish}'; see stepwell verify race --list`);
}

function policyOf({ POLICIES }: Verification, wish: string): verificationModule.PolicyName {
  const found = POLICIES.find((name) => name === wish);
  if (found) return found;
  throw new UsageError(`no policy is called '${wish}'; there is ${POLICIES.join(', ')}`);
}

async function search(context: Context, verification: Verification, plan: Plan): Promise<Result> {
  const result: Result = { scopes: [], random: undefined, seconds: 0, failure: undefined };
  for (const [i, scope] of plan.scopes.entries()) {
    // Whoever comes later gets what the others left, and all of them the same when none ends.
    const rest = plan.scopes.length - i + (plan.seeds ? 1 : 0);
    const end = context.now() + (plan.end - context.now()) / rest;
    const options = { crashes: plan.crashes, canary: plan.canary };
    const coverage = await watch(
      context,
      scope.name,
      verification.searchScope(scope, options),
      end,
    );
    result.scopes.push({ name: scope.name, ...coverage });
    if (coverage.failure === undefined) continue;
    const command = commandForScope(scope, plan);
    result.failure = { text: `scope ${scope.name}\n${coverage.failure.text}`, command };
    break;
  }
  if (plan.seeds && result.failure === undefined) {
    const seeds = verification.searchSeeds(plan.seeds);
    result.random = await watch(context, 'random schedules', seeds, plan.end);
    if (result.random.failure) result.failure = smallest(verification, result.random.failure);
  }
  result.seconds = (context.now() - plan.begin) / 1000;
  return result;
}

/** Goes on with a search until it ends or its time is over, with a line that tells how far it is. */
async function watch<C extends { schedules: number }>(
  context: Context,
  label: string,
  searching: Generator<C, C>,
  end: number,
): Promise<C> {
  const progress = new Progress(context, label, 'steps');
  let breathed = context.now();
  for (;;) {
    const { done, value } = searching.next();
    const now = context.now();
    if (done || now >= end) {
      progress.clear();
      return value;
    }
    progress.update(value.schedules, undefined);
    if (now - breathed < BREATH_MS) continue;
    await breathe();
    breathed = context.now();
    throwIfInterrupted(context.signal, `interrupted after ${plural(value.schedules, 'schedule')}`);
  }
}

function smallest(
  { shrink, commandFor }: Verification,
  { options, report }: NonNullable<RandomCoverage['failure']>,
): NonNullable<Result['failure']> {
  const replays = options.keep !== undefined || options.schedule !== undefined;
  const shrunk = replays ? { options, report } : shrink(options, report, SHRINK_MS);
  const { failure, timeline } = shrunk.report;
  const text = `seed ${options.seed}, policy ${options.policy}\n${failure?.kind}: ${failure?.text}`;
  return { text: `${text}\n${timeline}`, command: commandFor(shrunk.options) };
}

function commandForScope({ name }: Scope, { crashes, canary }: Plan): string {
  const parts = ['stepwell verify race', `--scope ${name}`];
  if (!crashes) parts.push('--crash-free');
  if (canary) parts.push(`--canary '${canary.name}'`);
  return parts.join(' ');
}

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
    [
      { head: 'SCOPE' },
      { head: 'SCHEDULES', align: 'right' },
      { head: 'WITH A CRASH', align: 'right' },
      { head: 'GIVEN UP', align: 'right' },
      { head: 'COVERED' },
    ],
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

function listing({ scopes, QUICK_SCOPES, POLICIES, CANARIES }: Verification): string {
  const quick = (name: string) => (QUICK_SCOPES.includes(name) ? ' (quick)' : '');
  return [
    'scopes:',
    ...scopes().map(({ name }) => `  ${name}${quick(name)}`),
    'policies:',
    ...POLICIES.map((name) => `  ${name}`),
    'canaries:',
    ...CANARIES.map(({ name }) => `  ${name}`),
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
