/** Stepwell beside Map, lmdb and Redis, in one run. See `npm run bench -- --help`. */
import { writeFileSync } from 'node:fs';
import { Campaign } from './bench/campaign.ts';
import {
  machineLines,
  NOTES,
  poolLines,
  resultTable,
  settingsLines,
  verdictTable,
} from './bench/report.ts';
import { judge, summarize } from './bench/results.ts';
import { readSettings } from './bench/settings.ts';
import { wantedRatios } from './bench/wanted.ts';
import { Cleanup } from './support/cleanup.ts';
import { describeMachine } from './support/machine.ts';
import { runLab } from './support/options.ts';

async function main(argv: string[]): Promise<void> {
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

await runLab(main);
