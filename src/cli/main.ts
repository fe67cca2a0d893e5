#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { startBenchClient } from './bench-client.ts';
import type { Context } from './context.ts';
import { interruptSignal } from './interrupts.ts';
import { Output } from './output.ts';
import { run } from './run.ts';
import { exactWords, startedWith } from './words.ts';

const now = () => performance.now();

function processContext(): Context {
  let signal: AbortSignal | undefined;
  return {
    stdin: process.stdin,
    stdout: new Output(process.stdout),
    stderr: new Output(process.stderr),
    env: process.env,
    version: packageVersion(),
    pid: process.pid,
    now,
    get signal() {
      signal ??= interruptSignal({ process, now, exit: (code) => process.exit(code) });
      return signal;
    },
    library: () => import('../store/open.ts'),
    serveRedis: async () => (await import('../gateway/server.ts')).serveRedis,
    listPools: async () => (await import('../store/list-pools.ts')).listPools,
    memoryNodes: async () => (await import('../store/memory-node.ts')).startMemoryNode,
    startBenchClient,
  };
}

/** The same two steps up from src/cli and from dist/cli. */
function packageVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

// No process.exit: what is written to a pipe must get there before the process ends.
const words = exactWords(process.argv.slice(2), startedWith(), process.env);
process.exitCode = await run(words, processContext());
