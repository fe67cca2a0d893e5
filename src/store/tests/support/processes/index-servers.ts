import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Scope } from '../pools.ts';
import { RUNTIME } from '../runtime.ts';

const MAIN = fileURLToPath(new URL('../../../../cli/main.ts', import.meta.url));

/** A process of `stepwell index-server`, and what it has said. */
export class ServerProcess {
  readonly child: ChildProcess;
  #text = '';
  #waiting: (() => void)[] = [];

  constructor(scope: Scope, url: string, options: readonly string[]) {
    const args = [...RUNTIME, MAIN, 'index-server', url, ...options];
    this.child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    scope.after(() => {
      this.child.kill('SIGKILL');
    });
    this.child.stdout?.on('data', (chunk) => {
      this.#text += chunk;
      this.#wake();
    });
    this.child.on('exit', () => this.#wake());
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Waits until it has said this so many times. */
  async says(words: string, times = 1): Promise<this> {
    while (this.#text.split(words).length <= times) {
      if (this.hasEnded) throw new Error(`the server ended: ${this.#text}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this;
  }

  /** Waits for its end and returns the signal that ended it. */
  async ended(): Promise<string | null> {
    if (!this.hasEnded) await once(this.child, 'exit');
    return this.child.signalCode;
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.child.kill(signal);
    await this.ended();
  }
}

/** A server process, once it holds its leases. */
export function startServer(
  scope: Scope,
  url: string,
  role: string,
  options: readonly string[] = [],
): Promise<ServerProcess> {
  return new ServerProcess(scope, url, ['--role', role, ...options]).says('holds');
}
