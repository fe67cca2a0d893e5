#!/usr/bin/env node
import { processContext } from '../src/cli/context.ts';
import { run } from '../src/cli/run.ts';
import { PROGRAMS } from './programs.ts';
import { UsageError } from './support/options.ts';
import { VERIFICATION } from './verification/cli/program.ts';

/** Runs one program of the workbench to its end; returns the exit code. */
async function main([name = '--help', ...words]: string[]): Promise<number> {
  if (name === 'verify') return run([name, ...words], processContext(), VERIFICATION);
  if (['--version', '-v'].includes(name)) return run([name], processContext(), VERIFICATION);
  if (['--help', '-h', 'help'].includes(name)) {
    console.log(overview());
    return 0;
  }
  const program = Object.hasOwn(PROGRAMS, name) ? PROGRAMS[name] : undefined;
  if (program === undefined) throw new UsageError(`no program '${name}'\n\n${overview()}`);
  await (await program.load()).main(words);
  return Number(process.exitCode ?? 0);
}

function overview(): string {
  const rows = Object.entries(PROGRAMS).map(([name, { about }]) => [name, about]);
  rows.unshift(['verify', VERIFICATION.commands[0].summary]);
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  const lines = rows.map(([name, about]) => `  ${name.padEnd(width)}${about}`);
  return `Usage: stepwell-lab <program> [options]\n\n${lines.join('\n')}\n\nOptions of each: stepwell-lab <program> --help`;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console[error.asked ? 'log' : 'error'](error.message);
  process.exitCode = error.asked ? 0 : 2;
}
