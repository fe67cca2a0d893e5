import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NetworkReport, NetworkTask } from './client-process.ts';
import type { Hosts } from './hosts.ts';

const EXTENSION = extname(import.meta.url);
/** Sources or compiled, as this file is. */
const RUNTIME = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
const fileOf = (path: string) => fileURLToPath(new URL(`${path}${EXTENSION}`, import.meta.url));

/** One process on a host, which can be killed, stopped and started again. */
export class HostProcess {
  readonly host: string;
  readonly #hosts: Hosts;
  readonly #words: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  child!: ChildProcess;
  complaints = '';

  constructor(hosts: Hosts, host: string, words: readonly string[], env: NodeJS.ProcessEnv) {
    this.#hosts = hosts;
    this.host = host;
    this.#words = words;
    this.#env = env;
  }

  /** `stepwell` with these words. */
  static program(hosts: Hosts, host: string, words: readonly string[], env: NodeJS.ProcessEnv) {
    return new HostProcess(hosts, host, [fileOf('../../../src/cli/main'), ...words], env);
  }

  #spawn(): void {
    const command = [process.execPath, ...RUNTIME, ...this.#words];
    this.child = this.#hosts.spawn(this.host, command, {
      env: { ...process.env, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.child.stderr?.on('data', (chunk) => {
      this.complaints += chunk;
    });
  }

  /** Runs it to its end; resolves with what it said. Rejects when it failed or was killed. */
  async output(): Promise<string> {
    this.#spawn();
    let text = '';
    this.child.stdout?.on('data', (chunk) => {
      text += chunk;
    });
    const [code] = await once(this.child, 'close');
    if (code === 0) return text;
    throw new Error(`a process on ${this.host} ended with ${code}: ${this.complaints}${text}`);
  }

  /** Resolves when it has said something on its output. */
  async start(): Promise<void> {
    this.#spawn();
    const ended = once(this.child, 'exit').then(([code]) => {
      throw new Error(`a process on ${this.host} ended with ${code}: ${this.complaints}`);
    });
    ended.catch(() => {});
    const said = once(this.child.stdout as NodeJS.ReadableStream, 'data');
    await Promise.race([said, once(this.child, 'message'), ended]);
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  get wasKilled(): boolean {
    return this.child.signalCode !== null;
  }

  signal(name: NodeJS.Signals): void {
    if (this.running) this.child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<void> {
    if (!this.running) return;
    const closed = once(this.child, 'close');
    this.child.kill(name);
    // A stopped process ends by nothing but this.
    if (name !== 'SIGKILL') this.child.kill('SIGCONT');
    await closed;
  }
}

/** A client of the campaign, and what it has reported. */
export class ClientProcess extends HostProcess {
  readonly task: NetworkTask;
  answered = 0;
  readonly errors = new Map<string, number>();

  constructor(hosts: Hosts, host: string, task: NetworkTask, env: NodeJS.ProcessEnv) {
    super(hosts, host, [fileOf('./client-process'), JSON.stringify(task)], env);
    this.task = task;
  }

  override async start(): Promise<void> {
    const starting = super.start();
    this.child.on('message', (message: NetworkReport) => {
      if ('answered' in message) this.answered = message.answered;
      else this.errors.set(message.error, (this.errors.get(message.error) ?? 0) + 1);
    });
    await starting;
  }

  /** Resolves when so many more calls were answered. */
  async progress(calls: number, patienceMs: number): Promise<void> {
    const goal = this.answered + calls;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), patienceMs);
    try {
      while (this.answered < goal) {
        if (!this.running) throw new Error(`the client ended: ${this.complaints}`);
        await once(this.child, 'message', { signal: late.signal });
      }
    } catch (cause) {
      if (!late.signal.aborted) throw cause;
      const met = JSON.stringify([...this.errors]);
      const text = `client ${this.task.number} stands still for ${patienceMs} ms; met ${met}`;
      throw new Error(text, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Lets the calls under way end. */
  async finish(): Promise<void> {
    if (!this.running) return;
    const closed = once(this.child, 'close');
    this.child.send('end');
    await closed;
  }
}
