import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What to have a process do. */
export type Task =
  | { kind: 'open'; url: string }
  | { kind: 'write'; from: number; count: number; sizes: string; timed: boolean }
  | { kind: 'request'; keys: Uint32Array; counted: number };

export interface Done {
  /** Writes that raised SW_POOL_FULL. */
  refused: number;
  /** Hits among the requests that counted. */
  hits: number;
  /** How long each write took, if writes were timed. */
  nanoseconds: number[];
}

/** Bytes of successive values: one number, or several separated by commas. */
export function sizesOf(text: string): number[] {
  return text.split(',').map(Number);
}

/** Processes that share the store of a pool. */
export class Crew {
  readonly #children: ChildProcess[] = [];

  static async of(processes: number, url: string): Promise<Crew> {
    const crew = new Crew();
    const script = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    for (let i = 0; i < processes; i++) {
      crew.#children.push(fork(fileURLToPath(script), [], { serialization: 'advanced' }));
    }
    await crew.all(() => ({ kind: 'open', url }));
    return crew;
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
    child.send(task);
    const answered = Promise.race([once(child, 'message', { signal }), ended]);
    const [answer] = (await answered) as [Done | { failed: string }];
    waiting.abort();
    if ('failed' in answer) throw new Error(answer.failed);
    return answer;
  }

  end(): void {
    for (const child of this.#children) child.disconnect();
  }
}
