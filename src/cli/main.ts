#!/usr/bin/env node
import { STEPWELL } from './commands/index.ts';
import { processContext } from './context.ts';
import { run } from './run.ts';
import { exactWords, startedWith } from './words.ts';

// Node's code for a program that ends while it waits for something.
process.exitCode = 13;
const words = exactWords(process.argv.slice(2), startedWith(), process.env);
// Not process.exit, which could end the process before a pipe has taken all output.
void run(words, processContext(), STEPWELL).then((code) => {
  process.exitCode = code;
});
