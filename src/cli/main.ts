#!/usr/bin/env node
import { STEPWELL } from './commands/index.ts';
import { processContext } from './context.ts';
import { run } from './run.ts';
import { exactWords, startedWith } from './words.ts';

// No process.exit: what is written to a pipe must get there before the process ends.
const words = exactWords(process.argv.slice(2), startedWith(), process.env);
void run(words, processContext(), STEPWELL).then((code) => {
  process.exitCode = code;
});
