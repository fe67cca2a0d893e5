import { parseArgs } from 'node:util';
import { CANARIES } from './canaries/index.ts';
import { POLICIES, type PolicyName } from './policies.ts';
import { commandFor, shrink } from './shrink.ts';
import { newSimulationMemory, type RunOptions, type RunReport, runSchedule } from './simulation.ts';

/**
 * Long runs on built code:
 *   npx tsc -p tsconfig.lab.json && nice node build/verification/campaign.js --seeds 1..100000
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seeds: { type: 'string', default: '1..1000000000' },
    minutes: { type: 'string', default: '10' },
    policy: { type: 'string' },
    schedule: { type: 'string' },
    keep: { type: 'string' },
    crashes: { type: 'boolean', default: true },
    /** Off, only the consequences of an early re-use count. */
    grace: { type: 'boolean', default: true },
    canary: { type: 'string' },
    /** Failures of each kind that are shown. */
    failures: { type: 'string', default: '1' },
    'any-version': { type: 'boolean', default: false },
    'shrink-seconds': { type: 'string', default: '20' },
  },
});

const SHOW_EVERY_MS = 5000;
const COUNTED = [
  ...(['operations', 'steps', 'splits', 'retries', 'freed', 'crashes', 'walks'] as const),
  ...(['dutyCrashes', 'refusals', 'sweeps', 'joins', 'departures', 'expulsions'] as const),
] as const;

const [first, last = first] = values.seeds.split('..').map(Number);
const policies = values.policy ? [values.policy as PolicyName] : POLICIES;
const end = Date.now() + Number(values.minutes) * 60_000;
const replays = values.keep !== undefined || values.schedule !== undefined;
const totals: Record<string, number> = { schedules: 0 };
const failures: Record<string, number> = {};
const longest = { call: 0, duty: 0, steps: 0 };
const memory = newSimulationMemory();

const position = { seed: first, shown: Date.now() };
for (; position.seed <= last && Date.now() < end; position.seed++) {
  for (const policy of policies) {
    const options = optionsFor(position.seed, policy);
    const report = runSchedule(options, memory);
    totals.schedules++;
    for (const name of COUNTED) totals[name] = (totals[name] ?? 0) + report[name];
    const { steps, settled } = report;
    longest.call = Math.max(longest.call, settled.call);
    longest.duty = Math.max(longest.duty, settled.duty);
    longest.steps = Math.max(longest.steps, steps);
    if (report.failure) show(options, report);
  }
  if (Date.now() - position.shown > SHOW_EVERY_MS) progress();
}
progress();
process.exitCode = Object.keys(failures).length > 0 ? 1 : 0;

function optionsFor(seed: number, policy: PolicyName): RunOptions {
  return {
    seed,
    policy,
    schedule: values.schedule ? Number(values.schedule) : undefined,
    keep: values.keep ? new Set(values.keep.split(',').map(Number)) : undefined,
    crashes: values.crashes,
    grace: values.grace,
    anyVersion: values['any-version'],
    canary: CANARIES.find(({ name }) => values.canary && name.includes(values.canary)),
  };
}

function show(options: RunOptions, report: RunReport): void {
  const kind = report.failure?.kind ?? '';
  failures[kind] = (failures[kind] ?? 0) + 1;
  if (failures[kind] > Number(values.failures)) return;
  const milliseconds = replays ? 0 : Number(values['shrink-seconds']) * 1000;
  const smaller = milliseconds > 0 ? shrink(options, report, milliseconds) : { options, report };
  console.log(`\n${kind}: seed ${options.seed}, policy ${options.policy}`);
  console.log(`${smaller.report.failure?.text}\n${smaller.report.timeline}`);
  console.log(`  ${commandFor(smaller.options)}\n`);
}

function progress(): void {
  position.shown = Date.now();
  const counts = Object.entries(totals).map(([name, count]) => `${count} ${name}`);
  const failed = `failures ${JSON.stringify(failures)}`;
  console.log(
    `seed ${position.seed}: ${counts.join(', ')}; at most ${JSON.stringify(longest)}; ${failed}`,
  );
}
