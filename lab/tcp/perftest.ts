import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Cleanup } from '../support/cleanup.ts';

/** `ucx_perftest`, which UCX measures itself with: one thread of C at each end, which spins. */
const COMMAND = 'ucx_perftest';
const FIRST_PORT = 21_000;
const PORTS = 10_000;
const START_MS = 300;
/**
 * The end that is read waits for the end of the test in `poll(…, 1)`, and progresses UCX once after
 * it (`sock_io` of perftest.c): where its processor executes READs, each takes a millisecond. No
 * option says otherwise, so this `poll` does not wait, and looks at the socket now and then.
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
  /** READs under way together. */
  outstanding: number;
  /**
   * The memory to READ: a process's own, where its processor must answer as a memory node's does,
   * or shared memory that UCX allocates, from which the reader copies by itself.
   */
  memory: 'of the process' | 'of UCX';
  /** What `impatientPoll` made. */
  preload: string;
}

export interface PerfResult {
  /** Microseconds a READ: the median. */
  micros: number;
  /** READs a second, over all. */
  rate: number;
}

/** Compiles what `LD_PRELOAD` takes. */
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
 * With -f: iterations, 50th percentile, average and overall time, bandwidths, and messages a second
 * on average and over all.
 */
function parse(output: string): PerfResult {
  const [line] = output.trim().split('\n').slice(-1);
  const numbers = line.replace(/^\D*/, '').trim().split(/\s+/).map(Number);
  const [, micros] = numbers;
  const rate = numbers.at(-1);
  if (!(micros > 0) || rate === undefined) throw new Error(`${COMMAND} said: ${output}`);
  return { micros, rate };
}
