import { parseArgs } from 'node:util';
import { POLICIES, type PolicyName } from './policies.ts';
import { type RunOptions, runSchedule } from './simulation.ts';

/**
 * Long runs on built code:
 *   npx tsc -p tsconfig.lab.json && nice node build/verification/campaign.js --seeds 1..100000
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1..1000000' },
    minutes: { type: 'string', default: '10' },
    policy: { type: 'string' },
    schedule: { type: 'string' },
    keep: { type: 'string' },
    'any-version': { type: 'boolean', default: false },
    failures: { type: 'string', default: '1' },
  },
});

const [first, last] = values.seeds.split('..').map(Number);
const policies = values.policy ? [values.policy as PolicyName] : POLICIES;
const end = Date.now() + Number(values.minutes) * 60_000;
const keep = values.keep ? new Set(values.keep.split(',').map(Number)) : undefined;
const totals = { schedules: 0, operations: 0, steps: 0, splits: 0, freed: 0, crashes: 0 };
const failures = new Map<string, number>();
let shown = Date.now();

for (let seed = first; seed <= (last ?? first) && Date.now() < end; seed++) {
  for (const policy of policies) {
    const options: RunOptions = { seed, policy, keep, anyVersion: values['any-version'] };
    if (values.schedule) options.schedule = Number(values.schedule);
    const report = runSchedule(options);
    totals.schedules++;
    for (const key of ['operations', 'steps', 'splits', 'freed', 'crashes'] as const) {
      totals[key] += report[key];
    }
    if (report.failure) {
      const { kind, text } = report.failure;
      failures.set(kind, (failures.get(kind) ?? 0) + 1);
      if ((failures.get(kind) ?? 0) <= Number(values.failures)) {
        console.log(`\n${kind}: seed ${seed}, policy ${policy}\n${text}\n${report.timeline}`);
      }
    }
  }
  if (Date.now() - shown > 5000) {
    shown = Date.now();
    progress(seed);
  }
}
progress(last ?? first);
process.exitCode = failures.size > 0 ? 1 : 0;

function progress(seed: number): void {
  const counts = Object.entries(totals).map(([name, count]) => `${count} ${name}`);
  console.log(`seed ${seed}: ${counts.join(', ')}; failures ${JSON.stringify([...failures])}`);
}
