/** Stepwell beside Map, lmdb and Redis, in one run. See `stepwell-lab bench --help`. */
import { writeFileSync } from 'node:fs';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { Campaign } from './campaign.ts';
import {
  machineLines,
  NOTES,
  poolLines,
  resultTable,
  settingsLines,
  verdictTable,
} from './report.ts';
import { judge, summarize } from './results.ts';
import { readSettings } from './settings.ts';
import { wantedRatios } from './wanted.ts';

export async function main(argv: string[]): Promise<void> {
  const settings = readSettings(argv, process.pid);
  const machine = describeMachine();
  console.log(`${machineLines(machine)}\n${settingsLines(settings)}\n`);
  const cleanup = new Cleanup();
  try {
    const campaign = new Campaign(settings, cleanup, (line) => console.error(line));
    const outcome = await campaign.run();
    const verdicts = wantedRatios().map((wanted) => judge(wanted, outcome.samples));
    console.log(`${resultTable(outcome)}\n\n${verdictTable(verdicts)}\n\n${NOTES}`);
    console.log(poolLines(outcome));
    for (const { part, reason } of outcome.skipped) console.log(`Left out: ${part}: ${reason}`);
    if (outcome.skipped.some(({ failed }) => failed)) process.exitCode = 1;
    if (settings.json !== '') {
      const summaries = summarize(outcome.samples);
      const whole = { settings, machine, ...outcome, summaries, verdicts };
      writeFileSync(settings.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } catch (error) {
    if (!cleanup.interrupted) throw error;
  } finally {
    await cleanup.run();
  }
}
