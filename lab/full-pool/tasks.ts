import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The store of the pool that counts the requests which processes have taken. */
export const COUNTER = 'counter';

/** What to have a process do. */
export type Task =
  | { kind: 'open'; url: string }
  | { kind: 'close' }
  | { kind: 'write'; from: number; count: number; sizes: string; timed: boolean }
  | { kind: 'request'; url: string; keys: Uint32Array; first: number }
  | { kind: 'churn'; seed: number; count: number; keys: number; sizes: string };

export interface Done {
  /** Writes that raised SW_POOL_FULL. */
  refused: number;
  /** Hits among the requests that counted. */
  hits: number;
  /** Requests that this process has made. */
  taken: number;
  /** Values that belong to another key. */
  wrong: number;
  /** How long each write took, if writes were timed. */
  nanoseconds: number[];
}

/** Bytes of successive values: one number, or several separated by commas. */
export function sizesOf(text: string): number[] {
  return text.split(',').map(Number);
}

/** Processes that share the store of a pool. */
export class Crew {
  readonly #children: ChildProcess[];
  #url = '';

  constructor(processes: number) {
    this.#children = Array.from({ length: processes }, newProcess);
  }

  async open(url: string): Promise<void> {
    this.#url = url;
    await this.all(() => ({ kind: 'open', url }));
  }

  get size(): number {
    return this.#children.length;
  }

  /** Runs a task in each process at the same time. */
  all(task: (process: number) => Task): Promise<Done[]> {
    return Promise.all(this.#children.map((_, i) => this.one(i, task(i))));
  }

  async one(number: number, task: Task): Promise<Done> {
    const child = this.#children[number];
    const waiting = new AbortController();
    const { signal } = waiting;
    const ended = once(child, 'exit', { signal }).then(() => [{ failed: 'the process has ended' }]);
    ended.catch(() => {});
    // What cannot be sent any more, `ended` tells.
    child.send(task, () => {});
    const answered = Promise.race([once(child, 'message', { signal }), ended]);
    const [answer] = (await answered) as [Done | { failed: string }];
    waiting.abort();
    if ('failed' in answer) throw new Error(answer.failed);
    return answer;
  }

  /** As `one`; undefined when the process was killed, and then there is another one. */
  async oneOrDead(number: number, task: Task): Promise<Done | undefined> {
    const done = await this.#oneIfAlive(number, task);
    if (done === undefined) await this.replace(number);
    return done;
  }

  /** Another process instead of one that was killed. */
  async replace(number: number): Promise<void> {
    if (this.#children[number].signalCode === null) return;
    const task = { kind: 'open', url: this.#url } as const;
    // It may be killed while it opens the store.
    do this.#children[number] = newProcess();
    while ((await this.#oneIfAlive(number, task)) === undefined);
  }

  async #oneIfAlive(number: number, task: Task): Promise<Done | undefined> {
    const child = this.#children[number];
    if (child.signalCode !== null) return undefined;
    try {
      return await this.one(number, task);
    } catch (error) {
      if (child.signalCode !== 'SIGKILL') throw error;
      return undefined;
    }
  }

  signal(number: number, signal: NodeJS.Signals): void {
    this.#children[number].kill(signal);
  }

  end(): void {
    for (const child of this.#children) child.disconnect();
  }
}

function newProcess(): ChildProcess {
  const script = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
  return fork(fileURLToPath(script), [], { serialization: 'advanced' });
}
