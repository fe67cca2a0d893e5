import type { EventEmitter } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { GatewayOptions, GatewayServer } from '../gateway/server.ts';
import type * as openModule from '../store/open.ts';
import type { copyPool } from '../store/pools/copy-pool.ts';
import type { grow } from '../store/pools/grow.ts';
import type { listPools } from '../store/pools/list-pools.ts';
import { isRemote } from '../store/remote/address.ts';
import type { startMemoryNode } from '../store/servers/memory-node.ts';
import type { observePool } from '../store/watching/observer.ts';
import type { serveWeb } from '../web/server.ts';
import { type BenchClient, type BenchClientSetup, startBenchClient } from './bench/bench-client.ts';
import { Interrupted } from './failures.ts';
import { Output } from './terminal/output.ts';
import { type Style, styleFor } from './terminal/style.ts';

export type Library = typeof openModule;

export interface Enlarging {
  copyPool: typeof copyPool;
  grow: typeof grow;
}

export type Gateway = Pick<GatewayServer, 'address' | 'close'>;

export type ServeRedis = (options: GatewayOptions) => Promise<Gateway>;

/** Announces the end of the process, so that commands can restore the terminal. */
export interface ExitHost {
  on(event: 'exit' | 'SIGHUP', listener: () => void): unknown;
  off(event: 'exit' | 'SIGHUP', listener: () => void): unknown;
  exit(code: number): void;
}

/** Everything outside itself that a command uses, so that tests can replace any of it. */
export interface Context {
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly pid: number;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Waits, or returns early when the signal is aborted. */
  pause(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Announces the end of the process, for commands that have something to restore first. */
  readonly exitHost: ExitHost;
  /**
   * Aborted by the first Ctrl-C. Reading this property replaces the system's default handling, so
   * only commands that check the signal while they run read it.
   */
  readonly signal: AbortSignal;
  /** Loaded on demand: `--help` must work where the native parts do not. */
  library(): Promise<Library>;
  enlarging(): Promise<Enlarging>;
  /** The gateway, in the form for stores of that URL. */
  serveRedis(url: string): Promise<ServeRedis>;
  serveWeb(): Promise<typeof serveWeb>;
  observe(): Promise<typeof observePool>;
  listPools(): Promise<typeof listPools>;
  memoryNodes(): Promise<typeof startMemoryNode>;
  startBenchClient(setup: BenchClientSetup): Promise<BenchClient>;
}

/**
 * Lets timers, signals and stream errors run. A loop over a store in shared memory never waits for
 * the system, so without this nothing else would run until it ends.
 */
export async function breathe(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves when the signal is aborted, such as by Ctrl-C. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Prints a report as JSON, or as a text that `describe` makes of it. */
export async function printReport<T>(
  { stdout, env }: Context,
  report: T,
  json: boolean,
  describe: (report: T, style: Style) => string,
): Promise<void> {
  const asText = () => describe(report, styleFor(stdout.isTTY, env));
  await stdout.line(json ? JSON.stringify(report, null, 2) : asText());
}

export function throwIfInterrupted(signal: AbortSignal, message: string): void {
  if (signal.aborted) throw new Interrupted(message);
}

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

/** The version of the package that contains a file, compiled or not; 'unknown' if none does. */
export function packageVersion(from: string): string {
  let file = new URL('../package.json', from);
  while (!existsSync(file)) {
    const above = new URL('../package.json', file);
    if (above.href === file.href) return 'unknown';
    file = above;
  }
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/**
 * `npm start` and `npx` forward the terminal's Ctrl-C to a child that has already received it, so
 * one key press arrives twice. A person's two presses are further apart than this.
 */
const ECHO_MS = 400;

interface InterruptHost {
  process: Pick<EventEmitter, 'on'>;
  now(): number;
  exit(code: number): void;
}

/**
 * A signal that the first SIGINT or SIGTERM aborts, for commands that shut down in an orderly way.
 * The second one ends the process at once, in case that hangs.
 */
export function interruptSignal(host: InterruptHost): AbortSignal {
  const controller = new AbortController();
  let first = 0;
  const listen = (name: 'SIGINT' | 'SIGTERM', exitCode: number): void => {
    host.process.on(name, () => {
      if (!controller.signal.aborted) {
        first = host.now();
        controller.abort();
      } else if (host.now() - first > ECHO_MS) {
        host.exit(exitCode);
      }
    });
  };
  listen('SIGINT', 130);
  listen('SIGTERM', 143);
  return controller.signal;
}
