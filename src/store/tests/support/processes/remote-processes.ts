import { type ChildProcess, fork } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { start } from '../../../../cli/tests/support/program.ts';
import type { AsyncStore, OpenOptions } from '../../../api.ts';
import { type Scope, temporaryDirectory } from '../pools.ts';
import { RUNTIME } from '../runtime.ts';
import type { RemoteReport, RemoteTask } from './remote-tasks.ts';

const SCRIPT = new URL('./remote-tasks.ts', import.meta.url);

/** Below the ports that connections take by themselves (ip_local_port_range begins at 32768). */
const PORTS = { first: 20_000, count: 12_000 };
const PORT_TRIES = 100;
const STOPPED_LOOKS = 1000;

/**
 * A free port that stays free while a node is down. No other test listens on it, and no connection
 * gets it as its own: a client that dials the dead node from that port would reach itself.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PORT_TRIES; tries++) {
    const port = PORTS.first + randomInt(PORTS.count);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port in ${PORT_TRIES} tries`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const refused = once(server, 'error');
  server.listen(port, '127.0.0.1');
  const free = await Promise.race([
    once(server, 'listening').then(
      () => true,
      () => false,
    ),
    refused.then(() => false),
  ]);
  if (!free) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** `stepwell memory-node` in a process of its own. */
export class NodeProcess {
  readonly port: number;
  readonly #words: string[];
  #child!: ReturnType<typeof start>;

  private constructor(port: number, words: string[]) {
    this.port = port;
    this.#words = words;
  }

  static async start(scope: Scope, words: string[]): Promise<NodeProcess> {
    const node = new NodeProcess(await freePort(), words);
    scope.after(() => node.signal('SIGKILL'));
    await node.restart();
    return node;
  }

  async restart(): Promise<void> {
    this.#child = start(['memory-node', '--listen', `127.0.0.1:${this.port}`, ...this.#words]);
    const ended = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`the node ended with ${code}: ${this.#child.stderr.read()}`);
    });
    ended.catch(() => {});
    await Promise.race([once(this.#child.stdout, 'data'), ended]);
  }

  async signal(name: NodeJS.Signals): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill(name);
    if (name === 'SIGKILL' || name === 'SIGTERM') await exited;
    if (name === 'SIGSTOP') await untilStopped(this.#child.pid as number);
  }
}

/** Each thread goes on until the signal reaches it, and may answer a request meanwhile. */
export async function untilStopped(pid: number): Promise<void> {
  const threads = `/proc/${pid}/task`;
  const isStopped = (thread: string) =>
    / T /.test(readFileSync(join(threads, thread, 'stat'), 'utf8').replace(/^.*\)/s, ''));
  for (let look = 0; look < STOPPED_LOOKS; look++) {
    if (readdirSync(threads).every(isStopped)) return;
    await setTimeout(10);
  }
  throw new Error(`process ${pid} does not stop`);
}

/** A writer in a process of its own, and what may and must be found of what it wrote. */
export class Writer {
  readonly child: ChildProcess;
  readonly task: RemoteTask;
  readonly errors: string[] = [];
  /** The last round that was acknowledged, by key. */
  readonly done = new Map<number, number>();
  acknowledged = 0;

  private constructor(scope: Scope, task: RemoteTask) {
    this.task = task;
    this.child = fork(SCRIPT, [JSON.stringify(task)], { execArgv: [...RUNTIME] });
    this.child.on('message', (report: RemoteReport) => this.#note(report));
    scope.after(() => this.kill());
  }

  static async start(scope: Scope, task: RemoteTask): Promise<Writer> {
    const writer = new Writer(scope, task);
    await Promise.race([
      once(writer.child, 'message'),
      once(writer.child, 'exit').then(([code]) => {
        throw new Error(`the writer ended with ${code}`);
      }),
    ]);
    return writer;
  }

  #note(report: RemoteReport): void {
    if (report.kind === 'error') this.errors.push(report.code);
    if (report.kind !== 'done') return;
    this.done.set(report.key, report.round);
    this.acknowledged++;
  }

  /** Waits until so many more writes were acknowledged. */
  async progress(writes: number): Promise<void> {
    const goal = this.acknowledged + writes;
    while (this.acknowledged < goal) await once(this.child, 'message');
  }

  async failure(code: string): Promise<void> {
    while (!this.errors.includes(code)) await once(this.child, 'message');
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const closed = once(this.child, 'close');
    this.child.kill('SIGKILL');
    // Reports that lie in the channel are read first.
    await closed;
  }

  /** The last round that was begun, by key. */
  begun(): Map<number, number> {
    const lines = readFileSync(this.task.log, 'utf8').trim().split('\n');
    return new Map(lines.map((line) => line.split(' ').map(Number) as [number, number]));
  }

  /** The oracle: every key holds what was acknowledged last, or what was begun after it. */
  async verify(store: AsyncStore): Promise<void> {
    const begun = this.begun();
    for (let key = 0; key < this.task.keys; key++) {
      const least = this.done.get(key) ?? 0;
      const most = begun.get(key) ?? 0;
      const value = (await store.get(`${this.task.prefix}${key}`)) as string | undefined;
      const round = value === undefined ? 0 : Number(value.split(':')[0]);
      const whole = value === undefined || value === `${round}:${'x'.repeat(key % 300)}`;
      if (whole && round >= least && round <= most) continue;
      const found = `key ${key} holds ${value?.slice(0, 20)}`;
      throw new Error(`${found}; acknowledged ${least}, begun ${most}`);
    }
  }
}

export function writerTask(
  scope: Scope,
  url: string,
  options: OpenOptions,
  prefix = 'k',
): RemoteTask {
  const log = join(temporaryDirectory(scope), 'begun');
  return { url, options, prefix, log, keys: 300, width: 8 };
}
