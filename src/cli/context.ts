import type { Readable } from 'node:stream';
import type { GatewayOptions, GatewayServer } from '../gateway/server.ts';
import type * as openModule from '../store/open.ts';
import type { copyPool } from '../store/pools/copy-pool.ts';
import type { grow } from '../store/pools/grow.ts';
import type { listPools } from '../store/pools/list-pools.ts';
import type { startMemoryNode } from '../store/servers/memory-node.ts';
import type { observePool } from '../store/watching/observer.ts';
import type { serveWeb } from '../web/server.ts';
import type { BenchClient, BenchClientSetup } from './bench/protocol.ts';
import { Interrupted } from './failures.ts';
import type { Output } from './terminal/output.ts';

export type Library = Pick<
  typeof openModule,
  | 'open'
  | 'openServed'
  | 'openServedSync'
  | 'create'
  | 'destroy'
  | 'inspect'
  | 'check'
  | 'dropStore'
>;

export interface Enlarging {
  copyPool: typeof copyPool;
  grow: typeof grow;
}

export type Gateway = Pick<GatewayServer, 'address' | 'close'>;

export type ServeRedis = (options: GatewayOptions) => Promise<Gateway>;

/** Of the process: what ends it without a word must leave the terminal whole. */
export interface ExitHost {
  on(event: 'exit' | 'SIGHUP', listener: () => void): unknown;
  off(event: 'exit' | 'SIGHUP', listener: () => void): unknown;
  exit(code: number): void;
}

/** All that a command touches outside itself, so that tests can stand in for any of it. */
export interface Context {
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly pid: number;
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** Waits, or returns early when the signal is aborted. */
  pause(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** What tells of the end of the process, for what has to be put right before. */
  readonly exitHost: ExitHost;
  /**
   * Aborted by the first Ctrl-C. Asking for it takes the signal over from the system's default,
   * so only commands that look at it while they run ask.
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
 * Lets timers, signals and stream errors through. Loops over a store in shared memory never wait
 * for the system, so without this nothing else would run until they end.
 */
export async function breathe(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

export function throwIfInterrupted(signal: AbortSignal, message: string): void {
  if (signal.aborted) throw new Interrupted(message);
}
