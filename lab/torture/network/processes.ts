import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NetworkReport, NetworkTask } from './client-process.ts';
import type { Hosts } from './hosts.ts';

const EXTENSION = extname(import.meta.url);
/** Child processes run from the sources or compiled, just as this file does. */
const RUNTIME = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
const fileOf = (path: string) => fileURLToPath(new URL(`${path}${EXTENSION}`, import.meta.url));

/** A process on a host, which can be killed, paused and restarted. */
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

  /** The `stepwell` command with these arguments. */
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

  /** Runs the process to its end; resolves with its stdout. Rejects if it failed or was killed. */
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

  /** Resolves at the first output or message of the process. */
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
    // A process stopped by SIGSTOP handles the signal only after SIGCONT.
    if (name !== 'SIGKILL') this.child.kill('SIGCONT');
    await closed;
  }
}

/** A client of the campaign, with the counts that it has reported. */
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

  /** Resolves when `calls` more calls have been answered; rejects after `timeoutMs`. */
  async progress(calls: number, timeoutMs: number): Promise<void> {
    const goal = this.answered + calls;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    try {
      while (this.answered < goal) {
        if (!this.running) throw new Error(`the client exited: ${this.complaints}`);
        await once(this.child, 'message', { signal: late.signal });
      }
    } catch (cause) {
      if (!late.signal.aborted) throw cause;
      const met = JSON.stringify([...this.errors]);
      const text = `client ${this.task.number} made no progress in ${timeoutMs} ms; met ${met}`;
      throw new Error(text, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the client after the calls that it has in flight. */
  async finish(): Promise<void> {
    if (!this.running) return;
    const closed = once(this.child, 'close');
    this.child.send('end');
    await closed;
  }
}
