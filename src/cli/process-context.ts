import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isRemote } from '../store/remote/address.ts';
import { startBenchClient } from './bench/client.ts';
import type { Context } from './context.ts';
import { interruptSignal } from './terminal/interrupts.ts';
import { Output } from './terminal/output.ts';

const now = () => performance.now();

export function processContext(): Context {
  let signal: AbortSignal | undefined;
  return {
    stdin: process.stdin,
    stdout: new Output(process.stdout),
    stderr: new Output(process.stderr),
    env: process.env,
    version: packageVersion(import.meta.url),
    pid: process.pid,
    now,
    pause: (milliseconds, wake) => delay(milliseconds, undefined, { signal: wake }).catch(() => {}),
    exitHost: process,
    get signal() {
      signal ??= interruptSignal({ process, now, exit: (code) => process.exit(code) });
      return signal;
    },
    library: () => import('../store/open.ts'),
    enlarging: async () => ({
      ...(await import('../store/pools/copy-pool.ts')),
      ...(await import('../store/pools/grow.ts')),
    }),
    serveRedis: async (url) =>
      isRemote(url)
        ? (await import('../gateway/over-network.ts')).serveRedis
        : (await import('../gateway/server.ts')).serveRedis,
    serveWeb: async () => (await import('../web/server.ts')).serveWeb,
    observe: async () => (await import('../store/watching/observer.ts')).observePool,
    listPools: async () => (await import('../store/pools/list-pools.ts')).listPools,
    memoryNodes: async () => (await import('../store/servers/memory-node.ts')).startMemoryNode,
    startBenchClient,
  };
}

/** Of the package that a file is a part of, compiled or not; 'unknown' when it is part of none. */
export function packageVersion(from: string): string {
  let file = new URL('../package.json', from);
  while (!existsSync(file)) {
    const above = new URL('../package.json', file);
    if (above.href === file.href) return 'unknown';
    file = above;
  }
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
