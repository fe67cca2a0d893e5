import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Answers the parent's messages one by one, and ends with the parent. */
export function serve<M>(handle: (message: M) => Promise<object>): void {
  process.on('message', async (message: M) => {
    try {
      process.send?.(await handle(message));
    } catch (error) {
      process.send?.({ failed: String(error) });
    }
  });
  process.on('disconnect', () => process.exit());
}

/** A child process that answers one message at a time. */
export class Asked<M extends object, A extends object> {
  readonly #child: ChildProcess;

  constructor(script: 'reader' | 'writer') {
    const file = new URL(`./${script}${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    this.#child = fork(fileURLToPath(file), [], { execArgv: process.execArgv });
  }

  async ask(message: M): Promise<A> {
    const waiting = new AbortController();
    const { signal } = waiting;
    const ended = once(this.#child, 'exit', { signal }).then(() => [{ failed: 'it has ended' }]);
    ended.catch(() => {});
    this.#child.send(message);
    const [answer] = await Promise.race([once(this.#child, 'message', { signal }), ended]);
    waiting.abort();
    if ('failed' in answer) throw new Error(answer.failed);
    return answer;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.disconnect();
    await gone;
  }
}
