import { breathe, type Context, throwIfInterrupted } from '../../../src/cli/context.ts';
import { UsageError } from '../../../src/cli/failures.ts';
import { plural } from '../../../src/cli/sizes.ts';
import { Progress } from '../../../src/cli/terminal/progress.ts';
import type * as verificationModule from '../index.ts';

export type Verification = typeof verificationModule;
type Coverage = verificationModule.Coverage;
type RandomCoverage = verificationModule.RandomCoverage;
type Scope = verificationModule.Scope;

const SHRINK_MS = 10_000;
const BREATH_MS = 50;

export interface Wishes {
  minutes?: number;
  scope?: string;
  seed?: { first: number; last: number };
  policy?: string;
  schedule?: number;
  keep?: ReadonlySet<number>;
  'crash-free': boolean;
  canary?: string;
}

export interface Plan {
  subject: verificationModule.Subject;
  scopes: Scope[];
  seeds: verificationModule.RandomSearch | undefined;
  crashes: boolean;
  canary: verificationModule.Canary | undefined;
  begin: number;
  end: number;
}

export interface Result {
  scopes: ({ name: string } & Coverage)[];
  random: RandomCoverage | undefined;
  seconds: number;
  failure: { text: string; command: string } | undefined;
}

export function planOf(
  verification: Verification,
  subject: verificationModule.Subject,
  wishes: Wishes,
  begin: number,
): Plan {
  const replays = wishes.keep !== undefined || wishes.schedule !== undefined;
  const random = wishes.seed !== undefined || wishes.policy !== undefined || replays;
  if (random && wishes.scope !== undefined) {
    throw new UsageError('--scope is exhaustive: --seed, --policy, --schedule and --keep are not');
  }
  const canary =
    wishes.canary === undefined ? undefined : canaryOf(verification, subject, wishes.canary);
  const crashes = !wishes['crash-free'];
  const { first, last } = wishes.seed ?? { first: 1, last: Number.MAX_SAFE_INTEGER };
  const policies =
    wishes.policy === undefined ? undefined : [policyOf(verification, wishes.policy)];
  const options = { subject, crashes, canary, schedule: wishes.schedule, keep: wishes.keep };
  return {
    subject,
    scopes: random ? [] : scopesOf(verification, subject, wishes.scope ?? 'quick'),
    seeds: wishes.scope === undefined ? { first, last, policies, options } : undefined,
    crashes,
    canary,
    begin,
    end: begin + (wishes.minutes ?? 1) * 60_000,
  };
}

function scopesOf(
  { scopes, QUICK_SCOPES }: Verification,
  subject: verificationModule.Subject,
  wish: string,
): Scope[] {
  const all = scopes(subject);
  if (wish === 'all') return all;
  if (wish === 'quick') return all.filter(({ name }) => QUICK_SCOPES.includes(name));
  return wish.split(',').map((name) => {
    const found = all.find((scope) => scope.name === name);
    if (found) return found;
    throw new UsageError(`no scope is called '${name}'; see --list`);
  });
}

function canaryOf(
  { CANARIES, isIn }: Verification,
  subject: verificationModule.Subject,
  wish: string,
): verificationModule.Canary {
  const found = CANARIES.find((one) => isIn(one, subject) && one.name.includes(wish));
  if (found) return found;
  throw new UsageError(`no canary is called '${wish}'; see --list`);
}

function policyOf({ POLICIES }: Verification, wish: string): verificationModule.PolicyName {
  const found = POLICIES.find((name) => name === wish);
  if (found) return found;
  throw new UsageError(`no policy is called '${wish}'; there is ${POLICIES.join(', ')}`);
}

export async function search(
  context: Context,
  verification: Verification,
  plan: Plan,
): Promise<Result> {
  const result: Result = { scopes: [], random: undefined, seconds: 0, failure: undefined };
  for (const [i, scope] of plan.scopes.entries()) {
    // A later worker gets what the others left, and all of them the same when none ends.
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

/** Runs a search until it ends or its time is over, and shows its progress. */
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
  const shrunk = replays
    ? { options, report }
    : shrink(options, report, { milliseconds: SHRINK_MS });
  const { failure, timeline } = shrunk.report;
  const text = `seed ${options.seed}, policy ${options.policy}\n${failure?.kind}: ${failure?.text}`;
  return { text: `${text}\n${timeline}`, command: commandFor(shrunk.options) };
}

function commandForScope({ name, subject }: Scope, { crashes, canary }: Plan): string {
  const parts = [`stepwell-lab verify ${subject.kind.manifest.name}`, `--scope ${name}`];
  if (!crashes) parts.push('--crash-free');
  if (canary) parts.push(`--canary '${canary.name}'`);
  return parts.join(' ');
}
