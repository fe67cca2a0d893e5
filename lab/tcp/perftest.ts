import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import type { Cleanup } from '../support/cleanup.ts';

/** `ucx_perftest`, which UCX measures itself with: one thread of C at each end, which spins. */
const COMMAND = 'ucx_perftest';
const FIRST_PORT = 21_000;
const PORTS = 10_000;
const START_MS = 300;

export interface PerfTask {
  /** `ucp_get`, `ucp_put_bw` … */
  test: string;
  transports: string;
  bytes: number;
  iterations: number;
  /** Verbs under way together. */
  outstanding: number;
}

export interface PerfResult {
  /** Microseconds a verb, over all. */
  micros: number;
  /** Verbs a second. */
  rate: number;
}

/** One run of both ends on this machine. */
export async function runPerftest(cleanup: Cleanup, task: PerfTask): Promise<PerfResult> {
  const port = String(FIRST_PORT + Math.floor(Math.random() * PORTS));
  const device = task.transports === 'tcp' ? { UCX_NET_DEVICES: 'lo' } : {};
  const env = { ...process.env, ...device, UCX_TLS: task.transports, UCX_HANDLE_ERRORS: 'none' };
  const server = spawn(COMMAND, ['-p', port], { env, stdio: 'ignore' });
  const failed = once(server, 'error').then(([error]) => {
    throw new Error(`${COMMAND} (Debian: ucx-utils): ${(error as Error).message}`);
  });
  failed.catch(() => {});
  cleanup.add(() => void server.kill());
  await Promise.race([setTimeout(START_MS), failed]);
  const { test, bytes, iterations, outstanding } = task;
  const numbers = ['-s', bytes, '-n', iterations, '-w', Math.ceil(iterations / 10)].map(String);
  const words = ['127.0.0.1', '-p', port, '-t', test, ...numbers, '-O', String(outstanding), '-f'];
  const client = spawn(COMMAND, words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  client.stdout.on('data', (piece: Buffer) => {
    output += piece;
  });
  await once(client, 'close');
  server.kill();
  return parse(output);
}

/**
 * With -f: iterations, 50th percentile, average and overall time, bandwidths, and messages a second
 * on average and over all.
 */
function parse(output: string): PerfResult {
  const [line] = output.trim().split('\n').slice(-1);
  const numbers = line.replace(/^\D*/, '').trim().split(/\s+/).map(Number);
  const [, , , micros] = numbers;
  const rate = numbers.at(-1);
  if (!(micros > 0) || rate === undefined) throw new Error(`${COMMAND} said: ${output}`);
  return { micros, rate };
}
