import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Cleanup } from '../support/cleanup.ts';

/** UCX's own benchmark: one spinning thread of C at each end. */
const COMMAND = 'ucx_perftest';
const FIRST_PORT = 21_000;
const PORTS = 10_000;
const START_MS = 300;
/**
 * The passive end waits for the end of the test in `poll(…, 1)` and progresses UCX once after each
 * poll (`sock_io` in perftest.c). Where its processor executes the READs, each READ would take a
 * millisecond. No option changes that. So this `poll` returns at once, and checks the socket only
 * at every 1024th call.
 */
const IMPATIENT_POLL = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
int poll(struct pollfd *descriptors, nfds_t count, int timeout) {
  static int (*next)(struct pollfd *, nfds_t, int);
  static unsigned calls;
  if (timeout == 1 && ++calls % 1024) return 0;
  if (!next) next = dlsym(RTLD_NEXT, "poll");
  return next(descriptors, count, timeout == 1 ? 0 : timeout);
}
int __poll_chk(struct pollfd *d, nfds_t count, int timeout, unsigned long bytes) {
  return poll(d, count, timeout);
}
`;

export interface PerfTask {
  transports: string;
  bytes: number;
  iterations: number;
  /** READs in flight together. */
  outstanding: number;
  /**
   * The memory to READ: the other process's own, whose processor must answer as a memory node's
   * does, or shared memory that UCX allocates, from which the reader copies without the other's
   * help.
   */
  memory: 'of the process' | 'of UCX';
  /** What `impatientPoll` made. */
  preload: string;
}

interface PerfResult {
  /** Microseconds a READ: the median. */
  micros: number;
  /** READs per second, over the whole run. */
  rate: number;
}

/** Compiles the library for `LD_PRELOAD`. */
export function impatientPoll(cleanup: Cleanup): string {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-perftest-'));
  cleanup.add(() => rmSync(folder, { recursive: true }));
  const library = join(folder, 'poll.so');
  const words = ['-shared', '-fPIC', '-O2', '-o', library, '-x', 'c', '-', '-ldl'];
  try {
    execFileSync('cc', words, { input: IMPATIENT_POLL });
  } catch (error) {
    throw new Error(`${COMMAND} needs a C compiler beside it (Debian: gcc)`, { cause: error });
  }
  return library;
}

/** One run of both ends on this machine. */
export async function runPerftest(cleanup: Cleanup, task: PerfTask): Promise<PerfResult> {
  const port = String(FIRST_PORT + Math.floor(Math.random() * PORTS));
  const device = task.transports === 'tcp' ? { UCX_NET_DEVICES: 'lo' } : {};
  const memory = task.memory === 'of UCX' ? {} : { UCX_ALLOC_PRIO: 'heap' };
  const settings = { ...device, ...memory, UCX_TLS: task.transports, UCX_HANDLE_ERRORS: 'none' };
  const env = { ...process.env, ...settings };
  const server = spawn(COMMAND, ['-p', port], {
    env: { ...env, LD_PRELOAD: task.preload },
    stdio: 'ignore',
  });
  const failed = once(server, 'error').then(([error]) => {
    throw new Error(`${COMMAND} (Debian: ucx-utils): ${(error as Error).message}`);
  });
  failed.catch(() => {});
  cleanup.add(() => void server.kill());
  await Promise.race([setTimeout(START_MS), failed]);
  const { bytes, iterations, outstanding } = task;
  const numbers = ['-s', bytes, '-n', iterations, '-w', Math.ceil(iterations / 10)].map(String);
  const words = [
    '127.0.0.1',
    '-p',
    port,
    '-t',
    'ucp_get',
    ...numbers,
    '-O',
    String(outstanding),
    '-f',
  ];
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
 * Parses the last line of `-f` output: iterations; median, average and overall time; bandwidths;
 * messages per second, average and overall.
 */
function parse(output: string): PerfResult {
  const [line] = output.trim().split('\n').slice(-1);
  const numbers = line.replace(/^\D*/, '').trim().split(/\s+/).map(Number);
  const [, micros] = numbers;
  const rate = numbers.at(-1);
  if (!(micros > 0) || rate === undefined) throw new Error(`${COMMAND} said: ${output}`);
  return { micros, rate };
}
